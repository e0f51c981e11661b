//! Sizes and names, over the whole range and at every edge.

use super::*;
use crate::capture::names::Namer;
use crate::capture::wire::Raw;

fn asked(interaction: Option<&str>, bytes_in: u64, bytes_out: u64, outcome: Outcome) -> Asked<'_> {
    Asked {
        interaction,
        host: "web",
        bytes_in: Some(bytes_in),
        bytes_out: Some(bytes_out),
        outcome,
    }
}

/// From these sizes on every size can be met.
const LEAST: [(Protocol, &str, u64, u64); 8] = [
    (Protocol::Http, "GET /", 22, 17),
    (Protocol::Http, "HEAD /", 23, 17),
    (Protocol::Ajp, "GET /", 34, 18),
    (Protocol::Ajp, "PATCH /", 43, 18),
    (Protocol::MySql, "SELECT t", 19, 11),
    (Protocol::MySql, "INSERT t", 15, 11),
    (Protocol::MySql, "EXECUTE", 14, 11),
    (Protocol::Opaque, "", 1, 1),
];

#[test]
fn every_size_above_the_least_is_met_exactly() {
    for (protocol, name, least_in, least_out) in LEAST {
        let sizes = (0..700).chain([2047, 2100, 8186, 9000, 10_000, 32_800, 65_535, 100_003]);
        for more in sizes.chain((8100..8300).chain(16_350..16_450)) {
            let wanted = (least_in + more, least_out + more);
            let spoken = speak(
                protocol,
                &asked(Some(name), wanted.0, wanted.1, Outcome::Ok),
            );
            let got = (spoken.up.len(), spoken.down.len() - spoken.greeting);
            assert_eq!(got, wanted, "{protocol:?} {name}");
            assert!(spoken.kept.bytes, "{protocol:?} {name} {wanted:?}");
        }
    }
}

#[test]
fn a_size_that_is_too_small_is_reported() {
    for (protocol, name, _, _) in LEAST.iter().take(7) {
        assert!(
            !speak(*protocol, &asked(Some(name), 3, 500, Outcome::Ok))
                .kept
                .bytes
        );
        assert!(
            !speak(*protocol, &asked(Some(name), 500, 3, Outcome::Ok))
                .kept
                .bytes
        );
    }
}

#[test]
fn errors_are_those_of_the_protocol() {
    let kept = |protocol, outcome| {
        speak(protocol, &asked(None, 500, 500, outcome))
            .kept
            .outcome
    };
    assert!(kept(Protocol::Http, Outcome::Code(503)));
    assert!(kept(Protocol::Ajp, Outcome::Code(404)));
    assert!(kept(Protocol::MySql, Outcome::Error(1040)));
    assert!(!kept(Protocol::Http, Outcome::Error(1040)));
    assert!(!kept(Protocol::MySql, Outcome::Code(503)));
    assert!(!kept(Protocol::Opaque, Outcome::Code(503)));
}

#[test]
fn statements_and_targets_have_the_names_they_were_made_from() {
    let mut namer = Namer::default();
    let mut names = Vec::new();
    let mut name = |raw: Raw<'_>| {
        let id = namer.name(raw, &mut names);
        names[id as usize].clone()
    };
    for sql in [
        "SELECT stories",
        "SELECT",
        "INSERT comments",
        "REPLACE t",
        "UPDATE users",
        "DELETE t",
        "CALL ViewStory",
        "TRUNCATE t",
        "LOAD t",
        "CREATE TABLE t",
        "DROP INDEX",
        "COMMIT",
    ] {
        for short in [false, true] {
            let statement = sql::statement(Some(sql), short);
            assert!(statement.as_named, "{sql}");
            assert_eq!(name(Raw::Sql(statement.text.as_bytes())), sql);
        }
    }
    let bare = sql::statement(Some("ViewStory"), false);
    assert_eq!(
        (name(Raw::Sql(bare.text.as_bytes())), bare.as_named),
        ("CALL ViewStory".to_owned(), false)
    );
    for http in [
        "GET /ViewStory",
        "POST /item/{id}",
        "GET /a/{id}.html",
        "GET /img/*.png",
        "OPTIONS *",
        "GET /a-b_c.d~e",
    ] {
        let target = http::Target::of(Some(http));
        assert!(target.as_named, "{http}");
        let raw = Raw::Http {
            method: target.method.as_bytes(),
            target: target.path.as_bytes(),
        };
        assert_eq!(name(raw), http);
    }
    let bare = http::Target::of(Some("ViewStory"));
    assert_eq!((bare.path.as_str(), bare.as_named), ("/ViewStory", false));
    assert!(!http::Target::of(Some("GET /a b")).as_named);
}
