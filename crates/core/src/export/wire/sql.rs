//! The statement of an interaction's name: `SELECT stories` → ``SELECT * FROM `stories` ``.

/// Commands that the table follows directly, with what may be in between.
const TABLE_FOLLOWS: [(&str, &str); 8] = [
    ("INSERT", "INTO "),
    ("REPLACE", "INTO "),
    ("UPDATE", ""),
    ("MERGE", "INTO "),
    ("TRUNCATE", "TABLE "),
    ("CALL", ""),
    ("COPY", ""),
    ("EXECUTE", ""),
];

pub struct Statement {
    pub text: String,
    /// The statement has the interaction's name.
    pub as_named: bool,
}

/// `short`: as few bytes as possible. A name that is not SQL becomes the call of a procedure of
/// that name.
pub fn statement(interaction: Option<&str>, short: bool) -> Statement {
    let name = interaction.unwrap_or("SELECT");
    let (command, table) = match name.split_once(' ') {
        Some((command, table)) => (command, Some(table)),
        None => (name, None),
    };
    let word = !command.is_empty() && command.bytes().all(|b| b.is_ascii_uppercase());
    let text = if word {
        sql(command, table, short)
    } else {
        None
    };
    Statement {
        as_named: interaction.is_some() && text.is_some(),
        text: text.unwrap_or_else(|| format!("CALL {}", quoted(name))),
    }
}

fn sql(command: &str, table: Option<&str>, short: bool) -> Option<String> {
    let Some(table) = table else {
        return Some(match command {
            "SELECT" => "SELECT 1".to_owned(),
            _ => command.to_owned(),
        });
    };
    if table.contains('`') || table.is_empty() {
        return None;
    }
    let quoted = quoted(table);
    let follows = TABLE_FOLLOWS.iter().find(|(known, _)| *known == command);
    match (command, follows) {
        ("SELECT", _) if short => Some(format!("SELECT*FROM{quoted}")),
        ("SELECT", _) => Some(format!("SELECT * FROM {quoted}")),
        ("DELETE", _) => Some(format!("DELETE FROM {quoted}")),
        ("LOAD", _) => Some(format!("LOAD DATA INFILE 'x' INTO TABLE {quoted}")),
        (_, Some((_, filler))) => {
            let filler = if short { "" } else { filler };
            Some(format!("{command} {filler}{quoted}"))
        }
        ("CREATE" | "ALTER" | "DROP", None) => {
            let (kind, name) = table.split_once(' ').unwrap_or((table, ""));
            match (kind, name) {
                ("TABLE", "") => None,
                ("TABLE", name) => Some(format!("{command} TABLE {}", self::quoted(name))),
                (_, "") => Some(format!("{command} {kind}")),
                _ => None,
            }
        }
        _ => None,
    }
}

fn quoted(name: &str) -> String {
    let name = name.replace('`', "'");
    format!("`{name}`")
}
