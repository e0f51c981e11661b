//! `SELECT stories`: the command of a statement and its first table, found word by word without
//! parsing.

use super::plain::is_plain;

/// One word of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word<'a> {
    /// A keyword, a name or a number.
    Plain(&'a str),
    /// A name in quotes.
    Quoted(&'a str),
    Symbol(u8),
}

impl Word<'_> {
    fn is(&self, keyword: &str) -> bool {
        matches!(self, Word::Plain(word) if word.eq_ignore_ascii_case(keyword))
    }
}

/// Words and literals of a statement, without comments.
#[derive(Clone)]
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    /// What follows `end`, or nothing.
    fn after(&self, from: usize, end: &str) -> &'a str {
        let rest = self.rest.get(from..).unwrap_or("");
        rest.find(end).map_or("", |at| &rest[at + end.len()..])
    }

    /// A literal or quoted name that begins with `quote`: its content, and what follows.
    fn quoted(&self, quote: u8, escapes: bool) -> (&'a str, &'a str) {
        let bytes = self.rest.as_bytes();
        let mut at = 1;
        while at < bytes.len() {
            match bytes[at] {
                b'\\' if escapes => at += 1,
                b if b == quote && bytes.get(at + 1) == Some(&quote) => at += 1,
                b if b == quote => return (&self.rest[1..at], &self.rest[at + 1..]),
                _ => {}
            }
            at += 1;
        }
        (&self.rest[1..], "")
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        loop {
            self.rest = self
                .rest
                .trim_start_matches(|c: char| c.is_whitespace() || c == '\0');
            let bytes = self.rest.as_bytes();
            match *bytes.first()? {
                b'-' if bytes.get(1) == Some(&b'-') => self.rest = self.after(2, "\n"),
                b'#' => self.rest = self.after(1, "\n"),
                b'/' if bytes.get(1) == Some(&b'*') => self.rest = self.after(2, "*/"),
                b'\'' => {
                    self.rest = self.quoted(b'\'', true).1;
                    return Some(Word::Symbol(b'\''));
                }
                quote @ (b'"' | b'`') => {
                    let (inside, rest) = self.quoted(quote, false);
                    self.rest = rest;
                    return Some(Word::Quoted(inside));
                }
                b'[' => {
                    let end = self.rest.find(']').unwrap_or(self.rest.len() - 1);
                    let inside = self.rest.get(1..end).unwrap_or("");
                    self.rest = self.rest.get(end + 1..).unwrap_or("");
                    return Some(Word::Quoted(inside));
                }
                _ => break,
            }
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$' || c == '@'));
        let end = end.unwrap_or(self.rest.len());
        if end == 0 {
            let symbol = self.rest.as_bytes()[0];
            let len = self.rest.chars().next().map_or(1, char::len_utf8);
            self.rest = &self.rest[len..];
            return Some(Word::Symbol(symbol));
        }
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(Word::Plain(word))
    }
}

/// Words between a command and its table that are not the table.
const FILLERS: [&str; 16] = [
    "INTO",
    "ONLY",
    "IGNORE",
    "LOW_PRIORITY",
    "HIGH_PRIORITY",
    "DELAYED",
    "QUICK",
    "TABLE",
    "LATERAL",
    "IF",
    "NOT",
    "EXISTS",
    "OR",
    "REPLACE",
    "TEMPORARY",
    "CONCURRENTLY",
];
/// Commands that their table follows directly.
const TABLE_FOLLOWS: [&str; 8] = [
    "INSERT", "REPLACE", "UPDATE", "MERGE", "TRUNCATE", "COPY", "CALL", "EXECUTE",
];
const DEFINITIONS: [&str; 3] = ["CREATE", "ALTER", "DROP"];
/// Commands of MySQL and PostgreSQL; anything else (a mistyped word, a password in the wrong
/// window) is `SQL`.
const COMMANDS: [&str; 92] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "MERGE",
    "WITH",
    "VALUES",
    "TABLE",
    "CALL",
    "DO",
    "EXECUTE",
    "EXEC",
    "PREPARE",
    "DEALLOCATE",
    "DECLARE",
    "FETCH",
    "MOVE",
    "CLOSE",
    "OPEN",
    "HANDLER",
    "BEGIN",
    "START",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "END",
    "ABORT",
    "XA",
    "SET",
    "RESET",
    "SHOW",
    "USE",
    "DESCRIBE",
    "DESC",
    "EXPLAIN",
    "HELP",
    "ANALYZE",
    "CREATE",
    "ALTER",
    "DROP",
    "TRUNCATE",
    "RENAME",
    "COMMENT",
    "IMPORT",
    "LOAD",
    "COPY",
    "GRANT",
    "REVOKE",
    "REASSIGN",
    "SECURITY",
    "LOCK",
    "UNLOCK",
    "LISTEN",
    "NOTIFY",
    "UNLISTEN",
    "DISCARD",
    "VACUUM",
    "REINDEX",
    "CLUSTER",
    "CHECKPOINT",
    "REFRESH",
    "OPTIMIZE",
    "REPAIR",
    "CHECK",
    "CHECKSUM",
    "CACHE",
    "FLUSH",
    "KILL",
    "PURGE",
    "CHANGE",
    "STOP",
    "INSTALL",
    "UNINSTALL",
    "BINLOG",
    "CLONE",
    "RESTART",
    "SHUTDOWN",
    "SIGNAL",
    "RESIGNAL",
    "GET",
    "BACKUP",
    "SLEEP",
    "PRAGMA",
    "ATTACH",
    "DETACH",
    "UPSERT",
    "IF",
    "CASE",
    "LOOP",
    "RETURN",
];
/// Objects other than tables that can be created.
const OBJECTS: [&str; 24] = [
    "INDEX",
    "VIEW",
    "MATERIALIZED",
    "DATABASE",
    "SCHEMA",
    "USER",
    "ROLE",
    "GROUP",
    "FUNCTION",
    "PROCEDURE",
    "TRIGGER",
    "EVENT",
    "SEQUENCE",
    "TYPE",
    "DOMAIN",
    "EXTENSION",
    "SERVER",
    "POLICY",
    "RULE",
    "TABLESPACE",
    "CAST",
    "AGGREGATE",
    "OPERATOR",
    "COLLATION",
];

/// A command that is no statement, and its collection.
pub fn of_collection(command: &[u8], collection: &[u8]) -> (String, Option<String>) {
    let command = String::from_utf8_lossy(command).into_owned();
    (command, Some(named(&String::from_utf8_lossy(collection))))
}

/// The command of a statement, and its table.
pub fn name(sql: &[u8]) -> (String, Option<String>) {
    let nothing = || ("SQL".to_owned(), None);
    let text = String::from_utf8_lossy(sql);
    let mut words = Words { rest: &text };
    let mut depth = 0;
    let command = loop {
        match words.next() {
            Some(Word::Symbol(b'(')) => depth += 1,
            Some(Word::Plain(word)) => break word.to_ascii_uppercase(),
            Some(Word::Symbol(b';' | b'{' | b'?' | b'=')) => {}
            _ => return nothing(),
        }
    };
    if !COMMANDS.contains(&command.as_str()) {
        return nothing();
    }
    let table = match command.as_str() {
        "WITH" => return with(words),
        "START" => return ("BEGIN".to_owned(), None),
        c if DEFINITIONS.contains(&c) => return definition(&command, &mut words),
        "SELECT" | "DELETE" => from(&mut words, depth),
        "LOAD" => into_table(&mut words),
        c if TABLE_FOLLOWS.contains(&c) => table(&mut words),
        _ => None,
    };
    (command, table)
}

/// The table after the next FROM at the same parenthesis depth as its command; inside, if that is a
/// subquery.
fn from(words: &mut Words<'_>, mut depth: i32) -> Option<String> {
    let mut at = depth;
    while let Some(word) = words.next() {
        match word {
            Word::Symbol(b'(') => at += 1,
            Word::Symbol(b')') => at -= 1,
            Word::Symbol(b';') => return None,
            _ if at == depth && word.is("FROM") => {
                let mut ahead = words.clone();
                if ahead.next() != Some(Word::Symbol(b'(')) {
                    return table(words);
                }
                depth += 1;
            }
            _ if at == depth && (word.is("UNION") || word.is("WHERE")) => return None,
            _ => {}
        }
    }
    None
}

/// A name that may be qualified: its last part.
fn table(words: &mut Words<'_>) -> Option<String> {
    let mut name = loop {
        match words.next()? {
            Word::Plain(word) if FILLERS.iter().any(|f| word.eq_ignore_ascii_case(f)) => {}
            Word::Plain(word) | Word::Quoted(word) => break word,
            Word::Symbol(b'(') => {}
            Word::Symbol(_) => return None,
        }
    };
    loop {
        let mut ahead = words.clone();
        if ahead.next() != Some(Word::Symbol(b'.')) {
            return Some(named(name));
        }
        match ahead.next() {
            Some(Word::Plain(word) | Word::Quoted(word)) => name = word,
            _ => return Some(named(name)),
        }
        *words = ahead;
    }
}

fn named(table: &str) -> String {
    if is_plain(table) { table } else { "{}" }.to_owned()
}

/// `LOAD DATA … INTO TABLE t`.
fn into_table(words: &mut Words<'_>) -> Option<String> {
    words.find(|word| word.is("INTO"))?;
    table(words)
}

/// `CREATE TABLE t`; of other things what they are: `CREATE INDEX`.
fn definition(command: &str, words: &mut Words<'_>) -> (String, Option<String>) {
    for word in words.by_ref() {
        match word {
            Word::Plain(kind) if kind.eq_ignore_ascii_case("TABLE") => {
                return (format!("{command} TABLE"), table(words));
            }
            Word::Plain(word) if FILLERS.iter().any(|f| word.eq_ignore_ascii_case(f)) => {}
            Word::Plain("UNIQUE" | "unique" | "UNLOGGED" | "unlogged") => {}
            Word::Plain(kind) => {
                let kind = kind.to_ascii_uppercase();
                let known = OBJECTS.contains(&kind.as_str());
                let kind = if known { kind.as_str() } else { "" };
                return (format!("{command} {kind}").trim_end().to_owned(), None);
            }
            _ => break,
        }
    }
    (command.to_owned(), None)
}

/// The command after the common table expressions; its table, or the first one inside them if it reads only them.
fn with(mut words: Words<'_>) -> (String, Option<String>) {
    let start = words.clone();
    let mut expressions: Vec<&str> = Vec::new();
    let (mut depth, mut last) = (0, "");
    while let Some(word) = words.next() {
        match word {
            Word::Symbol(b'(') => depth += 1,
            Word::Symbol(b')') => depth -= 1,
            _ if depth > 0 => {}
            Word::Plain(word) if word.eq_ignore_ascii_case("AS") => expressions.push(last),
            Word::Plain(word) => {
                let command = word.to_ascii_uppercase();
                let table = match command.as_str() {
                    "SELECT" | "DELETE" => from(&mut words, 0),
                    "INSERT" | "UPDATE" | "MERGE" | "REPLACE" => table(&mut words),
                    _ => {
                        last = word;
                        continue;
                    }
                };
                let inner = || {
                    let mut inside = start.clone();
                    inside
                        .find(|w| w.is("FROM"))
                        .and_then(|_| self::table(&mut inside))
                };
                let table = match table {
                    Some(table) if expressions.iter().any(|e| e.eq_ignore_ascii_case(&table)) => {
                        inner().or(Some(table))
                    }
                    table => table,
                };
                return (command, table);
            }
            Word::Quoted(word) => last = word,
            Word::Symbol(_) => {}
        }
    }
    ("WITH".to_owned(), None)
}
