#![allow(clippy::unwrap_used)]

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};

use super::moments::{self, Clock};
use super::*;

/// The rows of a block, the names of its requests, and the texts of `day`.
fn all(block: &[u8], plan: Plan) -> (RecordBatch, Vec<String>, Vec<String>) {
    let (mut cutter, mut namer, mut names) = (Cutter::new(plan), Namer::default(), Vec::new());
    let batch = cutter.cut(block, &mut namer, &mut names).unwrap();
    let texts = cutter.texts("day", 1).to_vec();
    (batch, names, texts)
}

fn cut(block: &[u8], plan: Plan) -> RecordBatch {
    all(block, plan).0
}

/// `[clock] "request" integer rt=decimal` in the columns 0 to 3.
fn plan() -> Plan {
    serde_json::from_str(
        r#"{"columns": [["stamp", "numbers"], ["asked", "names"], ["status", "numbers"], ["took", "numbers"]],
            "layouts": [{"fields": [
                {"before": "", "kind": "skip", "column": null, "stop": "["},
                {"before": "[", "kind": "clock", "column": 0, "stop": "]"},
                {"before": "] \"", "kind": "request", "column": 1, "stop": "\"\\"},
                {"before": "\" ", "kind": "integer", "column": 2, "stop": " "},
                {"before": " rt=", "kind": "decimal", "column": 3, "stop": " \""}],
              "after": "", "whole": true}]}"#,
    )
    .unwrap()
}

fn numbers<'b>(batch: &'b RecordBatch, name: &str) -> &'b [i64] {
    let column = batch.column_by_name(name).unwrap();
    column.as_primitive::<Int64Type>().values()
}

#[test]
fn lines_of_the_layout_become_rows() {
    let block = b"h [20/Nov/2026:16:49:00 +0000] \"GET /a?b HTTP/1.1\" 200 rt=1.203\r\n\nother\n\
        h [20/Nov/2026:16:49:00 +0130] \"GET /a HTTP/1.1\" - rt=-\n\
        h [20/Nov/2026:16:48:59 -0000] \"POST /a#b\" 99 rt=12";
    assert_eq!(plan().fault(), None);
    let (batch, names, _) = all(block, plan());
    let lines = batch.column(0).as_primitive::<UInt32Type>();
    assert_eq!(lines.values(), &[0, 3, 4]);
    let at = 1_795_193_340_000_000_000;
    let stamps = [at, at - 5400 * 1_000_000_000, at - 1_000_000_000];
    assert_eq!(numbers(&batch, "stamp"), stamps);
    assert_eq!(numbers(&batch, "status"), [200, NONE, 99]);
    let took = [1_203_000_000, NONE, 12_000_000_000];
    assert_eq!(numbers(&batch, "took"), took);
    assert_eq!(numbers(&batch, "asked"), [0, 0, 1]);
    assert_eq!(names, ["GET /a", "POST /a"]);
}

#[test]
fn other_lines_are_left_out() {
    for line in [
        "h [31/Feb/2026:16:49:00 +0000] \"GET /a\" 200 rt=1",
        "h [20/Nov/2026:24:49:00 +0000] \"GET /a\" 200 rt=1",
        "h [20/Nov/2026:16:49:00 +0060] \"GET /a\" 200 rt=1",
        "h [20/Nov/2026:16:49:00] \"GET /a\" 200 rt=1",
        "h [20/Nov/2026:16:49:00 +0000] \"GET\" 200 rt=1",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /\\\"a\" 200 rt=1",
        "h [20/Nov/2026:16:49:00 +0000] \"get /a\" 200 rt=1",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 2OO rt=1",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 200 rt=1.",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 200 rt=1e3",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 200 rt=.5",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 200 rt=1 ",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 200 rt=99999999999",
        "h [20/Nov/2026:16:49:00 +0000] \"GET /\u{e9}\" 200 rt=1",
        "",
        "[",
    ] {
        assert_eq!(cut(line.as_bytes(), plan()).num_rows(), 0, "{line}");
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut block = b"h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 200 rt=1\n".repeat(3);
    for at in 0..block.len() {
        for byte in [0, b'"', b'[', 0xff, b'\n', b'9'] {
            let kept = std::mem::replace(&mut block[at], byte);
            assert!(cut(&block, plan()).num_rows() <= 5);
            block[at] = kept;
        }
    }
}

#[test]
fn days_are_counted_from_the_epoch() {
    let mut clock = Clock::default();
    for (text, seconds) in [
        ("01/Jan/1970:00:00:00 +0000", 0),
        ("29/Feb/2000:00:00:01 +0000", 951_782_401),
        ("31/Dec/1969:23:59:59 +0000", -1),
        ("01/Mar/2100:00:00:00 -0100", 4_107_546_000),
    ] {
        assert_eq!(
            clock.read(text.as_bytes(), moments::zoned),
            Some(seconds * 1_000_000_000),
            "{text}"
        );
    }
}

#[test]
fn a_clock_may_have_milliseconds() {
    let at = moments::with_ms(b"20/Nov/2026:16:49:00.123");
    assert_eq!(at, Some(1_795_193_340_123_000_000));
    for text in [
        "20/Nov/2026:16:49:00",
        "20/Nov/2026:16:49:00.12",
        "20/Nov/2026:16:49:00 +0000",
    ] {
        assert_eq!(moments::with_ms(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn a_clock_may_be_that_of_c() {
    let at = |text: &str| moments::of_c(text.as_bytes());
    assert_eq!(
        at("Fri Nov 20 16:49:00 2026"),
        Some(1_795_193_340_000_000_000)
    );
    assert_eq!(
        at("Sun Nov  1 00:00:00 2026"),
        Some(1_793_491_200 * 1_000_000_000)
    );
    for text in [
        "Xri Nov 20 16:49:00 2026",
        "Fri Nov 31 16:49:00 2026",
        "Fri Nov 20 24:49:00 2026",
        "Fri Nov 2  16:49:00 2026",
        "Fri Nov 20 16:49:00 2026 ",
        "Fri Nov 20 16:49:00 9026",
        "",
    ] {
        assert_eq!(at(text), None, "{text}");
    }
}

#[test]
fn a_plan_without_its_columns_is_refused() {
    let plan: Plan = serde_json::from_str(
        r#"{"columns": [], "layouts": [{"fields": [{"before": "", "kind": "text", "column": 0, "stop": ""}],
            "after": "", "whole": true}]}"#,
    )
    .unwrap();
    assert!(plan.fault().is_some());
}

/// Text of two bytes, ` until in `, a value, and a double.
fn until() -> Plan {
    serde_json::from_str(
        r#"{"columns": [["day", "texts"], ["took", "numbers"]],
            "layouts": [{"fields": [
                {"before": "", "kind": "text", "column": 0, "stop": "", "most": 2},
                {"before": "", "kind": "until", "column": null, "stop": "", "most": 20},
                {"before": "in ", "kind": "value", "column": null, "stop": ""},
                {"before": ",", "kind": "double", "column": 1, "stop": ",}"}],
              "after": "}", "whole": false}]}"#,
    )
    .unwrap()
}

#[test]
fn fields_end_at_a_literal_after_a_value_and_after_their_length() {
    let block = b"20 a b in {\"x\": [1, \"in }\"]},0.012929675}\n21 in null,7} more\n";
    let (batch, _, texts) = all(block, until());
    let took = [12_929_675, 7_000_000_000];
    assert_eq!(numbers(&batch, "took"), took);
    assert_eq!(numbers(&batch, "day"), [1, 2]);
    assert_eq!(texts, ["20", "21"]);
}

#[test]
fn what_ends_elsewhere_is_left_out() {
    for line in [
        "20 a=b in 1,1}",
        "20 ain 1,1}",
        "20 a b c d e f g h i j k l in 1,1}",
        "20 in [1,1}",
        "20 in 1,1e3}",
        "20 in 1,-1}",
        "20 in 1,01}",
        "20 in 1,.5}",
        "20 in 1,5.}",
        "20 in 1,}",
    ] {
        let batch = cut(line.as_bytes(), until());
        assert_eq!(batch.num_rows(), 0, "{line}");
    }
}

#[test]
fn doubles_are_as_others_print_them() {
    let read = |text: &str| values::double(text.as_bytes());
    assert_eq!(
        read("1795193340.5241024"),
        Some(Some(1_795_193_340_524_102_400))
    );
    // The double has fewer digits.
    assert_eq!(
        read("1795193340.52410249"),
        Some(Some(1_795_193_340_524_102_400))
    );
    assert_eq!(read("0.0000001"), Some(Some(100)));
}

/// Method, path, and a number that may be negative.
fn asked(path: &str) -> Plan {
    let text = r#"{"columns": [["method", "texts"], ["asked", "names"], ["left", "signed"]],
            "layouts": [{"fields": [
                {"before": "", "kind": "method", "column": 0, "stop": " "},
                {"before": " ", "kind": "PATH", "column": 1, "stop": " "},
                {"before": " ", "kind": "integer", "column": 2, "stop": ""}],
              "after": "", "whole": true}]}"#;
    serde_json::from_str(&text.replace("PATH", path)).unwrap()
}

#[test]
fn a_request_may_be_in_two_fields() {
    let block =
        b"GET /item/17?x=1 -1\nGET /item/18 5\nPUT /item/18 -\n /x 1\nGET /\x01 1\nGET /\xff 1";
    let (batch, names, _) = all(block, asked("target"));
    assert_eq!(names, ["GET /item/{id}", "PUT /item/{id}"]);
    assert_eq!(numbers(&batch, "asked"), [0, 0, 1, NONE]);
    assert_eq!(numbers(&batch, "left"), [-1, 5, UNKNOWN, 1]);
    assert_eq!(numbers(&batch, "method"), [1, 1, 2, 3]);
    assert_eq!(cut(block, asked("path")).num_rows(), 3);
}

#[test]
fn negative_numbers_are_left_out_where_none_is_expected() {
    let block = b"h [20/Nov/2026:16:49:00 +0000] \"GET /a\" -1 rt=1";
    assert_eq!(cut(block, plan()).num_rows(), 0);
}

#[test]
fn moments_of_iso_8601() {
    let at = 1_795_193_340_000_000_000;
    let ms = 1_000_000;
    for (text, any, utc, local) in [
        ("2026-11-20T16:49:00Z", Some(at), Some(at), None),
        ("2026-11-20T16:49:00", Some(at), None, None),
        (
            "2026-11-20T16:49:00.123Z",
            Some(at + 123 * ms),
            Some(at + 123 * ms),
            None,
        ),
        ("2026-11-20T17:49:00+01:00", Some(at), None, None),
        (
            "2026-11-20T16:19:00.5-00:30",
            Some(at + 500 * ms),
            None,
            None,
        ),
        (
            "2026-11-20T16:49:00.123",
            Some(at + 123 * ms),
            None,
            Some(at + 123 * ms),
        ),
        ("2026-11-20 16:49:00,123", None, None, Some(at + 123 * ms)),
        ("2026-11-20T16:49:00.1234567890Z", None, None, None),
        ("2026-11-20T16:49:00.Z", None, None, None),
        ("2026-02-29T16:49:00Z", None, None, None),
        ("2026-13-20T16:49:00Z", None, None, None),
        ("2026-11-20T16:49:60Z", None, None, None),
        ("2026-11-20T16:49:00+0100", None, None, None),
        ("2026-11-20", None, None, None),
    ] {
        let read =
            [moments::iso, moments::iso_utc, moments::iso_local].map(|of| of(text.as_bytes()));
        assert_eq!(read, [any, utc, local], "{text}");
    }
}
