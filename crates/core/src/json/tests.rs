use proptest::prelude::*;

use super::{Fault, Parser, Scalar};

fn whole(text: &[u8]) -> Result<(), Fault> {
    let mut parser = Parser::new(text);
    parser.skip()?;
    match parser.peek() {
        Err(Fault::Short) => Ok(()),
        _ => Err(Fault::Wrong),
    }
}

/// Pieces of JSON, so that random sequences are often nearly JSON.
fn nearly() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00x\"",
        "\"\\q\"",
        "\"",
        "\\",
        "1",
        "-0",
        "01",
        "1.5e3",
        "1.",
        "-",
        "true",
        "nul",
        "null",
        " ",
        "\n",
        "{\"a\":1}",
        "[1,[2]]",
        "12345678\u{7f}é",
    ]);
    prop::collection::vec(pieces, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn it_accepts_what_serde_json_accepts(text in nearly()) {
        let expected = serde_json::from_str::<serde_json::Value>(&text);
        let found = whole(text.as_bytes());
        prop_assert_eq!(found.is_ok(), expected.is_ok(), "{:?}", expected);
        // What is cut within a value may go on. A number may go on as well, so its end is not known.
        if let Err(error) = expected {
            prop_assert!(error.is_eof() || found != Err(Fault::Short) || text.ends_with(|c: char| !c.is_whitespace()));
        }
    }

    #[test]
    fn strings_have_the_text_that_serde_json_finds(text in "\\PC{0,40}", plain in "[a-z]{0,20}") {
        let written = serde_json::to_string(&format!("{plain}{text}\n\"")).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let found = Parser::new(written.as_bytes()).scalar();
        let expected = format!("{plain}{text}\n\"").into_bytes();
        prop_assert_eq!(found, Ok(Scalar::Text(expected.into())));
    }
}

#[test]
fn deep_nesting_is_damage_and_no_crash() {
    assert_eq!(whole(&b"[".repeat(1_000_000)), Err(Fault::Wrong));
    assert_eq!(whole(&b"{\"a\":".repeat(1_000_000)), Err(Fault::Wrong));
    assert_eq!(whole(b"[[[1]]]"), Ok(()));
}

#[test]
fn what_ends_too_early_is_told_from_what_is_wrong() {
    for text in [
        "{\"a",
        "[1",
        "[12",
        "{\"a\":tr",
        "\"\\u00",
        "[",
        "{\"a\":1,",
    ] {
        assert_eq!(whole(text.as_bytes()), Err(Fault::Short), "{text}");
    }
    for text in [
        "{a",
        "[1 2",
        "{\"a\":tx",
        "\"\\x",
        "]",
        "{\"a\":1,}",
        "[1,]",
        "\"\u{1}",
    ] {
        assert_eq!(whole(text.as_bytes()), Err(Fault::Wrong), "{text}");
    }
}

#[test]
fn scalars_are_text_or_numbers() {
    let scalar = |text: &'static str| Parser::new(text.as_bytes()).scalar().unwrap_or_default();
    assert_eq!(scalar("\"17\"").whole(), Some(17));
    assert_eq!(scalar("17 ").whole(), Some(17));
    assert_eq!(scalar("-17 ").whole(), None);
    assert_eq!(scalar("9999999999999999999 ").whole(), Some(i64::MAX));
    assert_eq!(scalar("10000000000000000000 ").whole(), None);
    assert_eq!(scalar("\"1.5\"").number(), Some(1.5));
    assert_eq!(scalar("2e1 ").number(), Some(20.0));
    assert_eq!(scalar("true").number(), None);
    assert_eq!(scalar("\"\"").text(), None);
    assert_eq!(scalar("[1]"), Scalar::Nested);
}
