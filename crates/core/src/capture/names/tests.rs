#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{Namer, Rule, NAMES_MAX};
use crate::capture::wire::Raw;
use crate::record::Names;
use proptest::prelude::*;

fn http(target: &str) -> String {
    super::path::name(b"GET", target.as_bytes())
}

fn sql(text: &str) -> String {
    super::of_statement(super::sql::name(text.as_bytes())).0
}

#[test]
fn paths_lose_what_differs_from_request_to_request() {
    for (target, name) in [
        ("/", "GET /"),
        ("/s?id=1", "GET /s"),
        ("/stories/17/comments/4", "GET /stories/{id}/comments/{id}"),
        (
            "/servlet/edu.rice.rubbos.servlets.ViewStory?storyId=8",
            "GET /servlet/edu.rice.rubbos.servlets.ViewStory",
        ),
        ("http://host:80/a/b?c", "GET /a/b"),
        ("http://host", "GET /"),
        ("*", "GET *"),
        ("/a;jsessionid=8F3/b", "GET /a/b"),
        ("/o/123e4567-e89b-12d3-a456-426614174000", "GET /o/{id}"),
        ("/c/9fceb02d0ae598e95dc970b74767f19372d61af8", "GET /c/{id}"),
        ("/y/dQw4w9WgXcQ", "GET /y/{id}"),
        ("/u/01ARZ3NDEKTSV4RRFFQ69G5FAV", "GET /u/{id}"),
        ("/day/2024-01-15", "GET /day/{id}"),
        ("/story/17.html", "GET /story/{id}.html"),
        ("/order-20231/lines", "GET /{id}/lines"),
        ("/api/v2/users/me", "GET /api/v2/users/me"),
        ("/1.0/BrowseCategories2", "GET /1.0/BrowseCategories2"),
        (
            "/getUserProfileInformation2",
            "GET /getUserProfileInformation2",
        ),
        ("/facade/decade", "GET /facade/decade"),
        ("/assets/app.3f2a9c.js", "GET /assets/*.js"),
        ("/favicon.ico", "GET /*.ico"),
        (
            "/PHP/BrowseStoriesByCategory.php?page=1",
            "GET /PHP/BrowseStoriesByCategory.php",
        ),
        (
            "/a/b/c/d/e/f/g/h/i/j/k/l/m/n",
            "GET /a/b/c/d/e/f/g/h/i/j/k/l/…",
        ),
        ("/caf\u{e9}/%20", "GET /{}/{}"),
        ("/u/alice@example.org/+491701234567", "GET /u/{}/{}"),
        ("/reset/eyJhbGciOiJIUzI1NiJ9.e30", "GET /reset/{}"),
        ("/k/sk_live_abcdef", "GET /k/{}"),
        ("not-a-path", "GET {}"),
        (
            "/u/:user/{id}/<int:page>/:id.json",
            "GET /u/{id}/{id}/{id}/{id}",
        ),
        ("/a/{b/<c", "GET /a/{}/{}"),
    ] {
        assert_eq!(http(target), name, "{target}");
    }
    assert_eq!(super::path::name(b"CONNECT", b"host:443"), "CONNECT");
}

#[test]
fn statements_are_their_command_and_first_table() {
    for (text, name) in [
        ("SELECT id, title FROM stories WHERE id=?", "SELECT stories"),
        (
            "select * from `rubbos`.`stories` s join users u",
            "SELECT stories",
        ),
        (
            "/* app:1 */ -- hello\n  SELECT 1 FROM \"public\".\"t\"",
            "SELECT t",
        ),
        ("SELECT 1", "SELECT"),
        (
            "SELECT EXTRACT(YEAR FROM d), (SELECT max(x) FROM inside) FROM outside",
            "SELECT outside",
        ),
        ("SELECT 'FROM lies', \"x\" FROM truth", "SELECT truth"),
        ("SELECT 'it''s \\' FROM lies' FROM truth", "SELECT truth"),
        (
            "SELECT * FROM (SELECT a FROM inner_table WHERE x IN (1)) t",
            "SELECT inner_table",
        ),
        ("(SELECT a FROM t1) UNION (SELECT a FROM t2)", "SELECT t1"),
        ("SELECT 1 UNION SELECT a FROM t2", "SELECT"),
        ("INSERT INTO comments (a,b) VALUES (1,2)", "INSERT comments"),
        ("insert ignore into `c`(a) values (1)", "INSERT c"),
        ("REPLACE INTO t VALUES (1)", "REPLACE t"),
        ("UPDATE LOW_PRIORITY users SET a=1", "UPDATE users"),
        ("DELETE FROM t WHERE 1", "DELETE t"),
        ("DELETE a FROM t a JOIN u", "DELETE t"),
        (
            "WITH x AS (SELECT * FROM stories), y(a) AS (SELECT 1) SELECT * FROM x",
            "SELECT stories",
        ),
        (
            "WITH RECURSIVE x AS (SELECT 1) INSERT INTO log SELECT * FROM x",
            "INSERT log",
        ),
        ("CREATE TABLE IF NOT EXISTS a.b (c int)", "CREATE TABLE b"),
        ("create unique index i on t (c)", "CREATE INDEX"),
        ("DROP TABLE t", "DROP TABLE t"),
        ("CALL shop.buy(1)", "CALL buy"),
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", "LOAD t"),
        ("commit", "COMMIT"),
        ("BEGIN;", "BEGIN"),
        ("START TRANSACTION READ ONLY", "BEGIN"),
        ("SET NAMES utf8", "SET"),
        ("SHOW VARIABLES", "SHOW"),
        ("hunter2", "SQL"),
        ("SELCT * FROM users", "SQL"),
        ("SELECT * FROM hunter2000", "SELECT {}"),
        ("CREATE hunter2 x", "CREATE"),
        ("SELECT id FROM som", "SELECT som"),
        ("SELECT id FRO", "SELECT"),
        ("SELECT 1; SELECT 2 FROM t", "SELECT"),
        ("", "SQL"),
        ("\u{fffd}", "SQL"),
    ] {
        assert_eq!(sql(text), name, "{text}");
    }
}

fn get(target: &str) -> Raw<'_> {
    Raw::Http {
        method: b"GET",
        target: target.as_bytes(),
    }
}

#[test]
fn rules_of_the_user_come_first() {
    let rule = |matches: &str, name: &str| Rule {
        matches: matches.to_string(),
        name: name.to_string(),
    };
    let rules = [
        rule(r"^GET /s\?page=(\d)", "page $1"),
        rule("(?i)^select .* from stories", "read story"),
    ];
    let mut namer = Namer::new(&rules, false).unwrap();
    let mut names = Vec::new();
    let raws = [
        get("/s?page=2"),
        get("/s?x"),
        Raw::Sql(b"SELECT a FROM stories"),
        Raw::Command("PING"),
        get("/s?page=2"),
    ];
    let ids: Vec<u32> = raws
        .into_iter()
        .map(|raw| namer.name(raw, &mut names))
        .collect();
    assert_eq!(names, ["page 2", "GET /s", "read story", "PING"]);
    assert_eq!(ids, [0, 1, 2, 3, 0]);
    let wrong = Namer::new(&[rule("(", "x")], false);
    let wrong = wrong.unwrap_err().to_string();
    assert!(wrong.starts_with("names: match \"(\":"), "{wrong}");
}

/// The letters of a number: a word of its own for each.
fn word(mut number: usize) -> String {
    let mut word = String::new();
    while number > 0 || word.is_empty() {
        word.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    word
}

#[test]
fn what_differs_from_request_to_request_is_folded() {
    let mut namer = Namer::default();
    let mut names = Vec::new();
    namer.name(get("/login"), &mut names);
    for i in 0..NAMES_MAX + 70_000 {
        namer.name(get(&format!("/u/{}/edit", word(i))), &mut names);
    }
    assert_eq!(names.len(), 1 + super::SIBLINGS_MAX as usize + 1);
    assert_eq!(names.last().unwrap(), "GET /u/{}/edit");
    let login = namer.name(get("/login"), &mut names);
    assert_eq!(login, 0);
    assert!(namer.cache.len() <= super::CACHE_MAX);
    assert_eq!(namer.name(Raw::Unknown, &mut names), crate::record::NO_NAME);
}

/// What requests are called when all of them were counted, each so often.
fn settled(namer: &mut Namer, names: &mut Names, seen: &[(Raw<'_>, u32)]) -> Vec<String> {
    let mut ids = Vec::new();
    for &(raw, times) in seen {
        let id = namer.name(raw, &mut names.interactions);
        (0..times).for_each(|_| namer.count(id, 0));
        ids.push(id);
    }
    namer.settle(names);
    let shown = ids.iter().map(|&id| names.shown(id) as usize);
    shown.map(|id| names.interactions[id].clone()).collect()
}

#[test]
fn what_one_or_two_requests_have_alone_is_folded() {
    let (mut namer, mut names) = (Namer::default(), Names::default());
    let new = namer.name(get("/u/alice.php"), &mut names.interactions);
    namer.hide(&mut names);
    let shown = names.shown(new) as usize;
    assert_eq!(names.interactions[shown], "GET /{}/{}.php");
    let seen = [
        (get("/index.html"), 3),
        (get("/u/alice"), 2),
        (get("/17"), 1),
        (Raw::Sql(b"SELECT 1 FROM stories"), 2),
        (Raw::Sql(b"UPDATE stories SET a=1"), 1),
        (Raw::Sql(b"SELECT 1 FROM hunter"), 2),
        (Raw::Sql(b"CREATE TABLE alice (a int)"), 1),
        (Raw::Sql(b"COMMIT"), 1),
        (Raw::Command("PING"), 1),
    ];
    let shown = settled(&mut namer, &mut names, &seen);
    let folded = ["GET /index.html", "GET /{}/{}", "GET /{id}"];
    let tables = [
        "SELECT stories",
        "UPDATE stories",
        "SELECT {}",
        "CREATE TABLE {}",
    ];
    assert_eq!(shown, [&folded[..], &tables, &["COMMIT", "PING"]].concat());
    // Others come later: what was folded has its name from then on.
    let shown = settled(
        &mut namer,
        &mut names,
        &[(get("/u/alice"), 1), (get("/u/bob"), 1)],
    );
    assert_eq!(shown, ["GET /u/alice", "GET /u/{}"]);
    assert!(names.folded.len() <= names.interactions.len());
}

#[test]
fn what_the_user_wants_to_see_is_never_folded() {
    let rule = Rule {
        matches: "^GET /u/(.*)".to_owned(),
        name: "of $1".to_owned(),
    };
    let mut ruled = Namer::new(&[rule], false).unwrap();
    let mut kept = Namer::new(&[], true).unwrap();
    let seen = [(get("/u/alice"), 1)];
    assert_eq!(
        settled(&mut ruled, &mut Names::default(), &seen),
        ["of alice"]
    );
    assert_eq!(
        settled(&mut kept, &mut Names::default(), &seen),
        ["GET /u/alice"]
    );
}

#[test]
fn names_are_bounded_and_the_rest_is_one() {
    let mut namer = Namer::default();
    let mut names = Vec::new();
    for i in 0..NAMES_MAX + 100 {
        namer.name(
            Raw::Sql(format!("SELECT 1 FROM {}", word(i)).as_bytes()),
            &mut names,
        );
    }
    let last = names[NAMES_MAX].as_str();
    assert_eq!((names.len(), last), (NAMES_MAX + 1, super::OTHER));
}

#[test]
fn the_option_keeps_everything() {
    let mut namer = Namer::new(&[], true).unwrap();
    let mut names = Vec::new();
    namer.name(get("/u/alice@example.org?token=1"), &mut names);
    namer.name(Raw::Sql(b"SELECT 'secret'"), &mut names);
    namer.name(Raw::Word("HUNTER2"), &mut names);
    assert_eq!(
        names,
        [
            "GET /u/alice@example.org?token=1",
            "SELECT 'secret'",
            "HUNTER2"
        ]
    );
    let mut folded = Vec::new();
    Namer::default().name(Raw::Word("HUNTER2"), &mut folded);
    assert_eq!(folded, ["{}"]);
}

proptest! {
    #[test]
    fn any_text_gets_a_short_name(text in proptest::collection::vec(any::<u8>(), 0..400), pattern in "[a-zA-Z(),.'\"` \n/*-]{0,120}") {
        let mut namer = Namer::default();
        let mut names = Vec::new();
        for raw in [Raw::Sql(&text), Raw::Sql(pattern.as_bytes()), Raw::Http { method: b"GET", target: &text }] {
            let id = namer.name(raw, &mut names);
            prop_assert_eq!(namer.name(raw, &mut names), id);
        }
        prop_assert!(names.iter().all(|name| name.len() <= super::NAME_MAX));
    }

    #[test]
    fn numbers_of_a_path_do_not_change_its_name(path in "/([a-f0-9;.,:_-]{0,14}/|[a-z]{1,6}/|[0-9]{1,5}/|/){0,14}[a-z0-9.]{0,8}") {
        let mut shape = Vec::new();
        super::path::without_numbers(path.as_bytes(), &mut shape);
        let shape = String::from_utf8(shape).unwrap();
        prop_assert_eq!(http(&shape), http(&path));
    }
}
