#![allow(clippy::unwrap_used)]

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;

use super::*;

/// `[clock] "request" integer rt=decimal` in the columns 0 to 3.
fn plan() -> Plan {
    serde_json::from_str(
        r#"{"columns": [["stamp", false], ["asked", true], ["status", false], ["took", false]],
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

fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    let column = batch.column_by_name(name).unwrap();
    column.as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn lines_of_the_layout_become_rows() {
    let block = b"h [20/Nov/2026:16:49:00 +0000] \"GET /a?b HTTP/1.1\" 200 rt=1.203\r\n\nother\n\
        h [20/Nov/2026:16:49:00 +0130] \"GET /a HTTP/1.1\" - rt=-\n\
        h [20/Nov/2026:16:48:59 -0000] \"POST /a#b\" 99 rt=12";
    assert_eq!(plan().fault(), None);
    let batch = cut(block, &plan()).unwrap();
    let lines = batch.column(0).as_primitive::<UInt32Type>();
    assert_eq!(lines.values(), &[0, 3, 4]);
    let at = 1_795_193_340_000_000_000;
    let stamps = [at, at - 5400 * 1_000_000_000, at - 1_000_000_000];
    assert_eq!(numbers(&batch, "stamp"), stamps.map(Some));
    assert_eq!(numbers(&batch, "status"), [Some(200), None, Some(99)]);
    let took = [Some(1_203_000_000), None, Some(12_000_000_000)];
    assert_eq!(numbers(&batch, "took"), took);
    let asked = batch.column(2).as_dictionary::<UInt32Type>();
    assert_eq!(asked.keys().values(), &[0, 0, 1]);
    let texts: Vec<_> = asked.values().as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some("GET /a"), Some("POST /a")]);
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
        assert_eq!(
            cut(line.as_bytes(), &plan()).unwrap().num_rows(),
            0,
            "{line}"
        );
    }
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let mut block = b"h [20/Nov/2026:16:49:00 +0000] \"GET /a\" 200 rt=1\n".repeat(3);
    for at in 0..block.len() {
        for byte in [0, b'"', b'[', 0xff, b'\n', b'9'] {
            let kept = std::mem::replace(&mut block[at], byte);
            assert!(cut(&block, &plan()).unwrap().num_rows() <= 5);
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
            clock.read(text.as_bytes(), values::zoned),
            Some(seconds * 1_000_000_000),
            "{text}"
        );
    }
}

#[test]
fn a_clock_may_have_milliseconds() {
    let at = values::with_ms(b"20/Nov/2026:16:49:00.123");
    assert_eq!(at, Some(1_795_193_340_123_000_000));
    for text in [
        "20/Nov/2026:16:49:00",
        "20/Nov/2026:16:49:00.12",
        "20/Nov/2026:16:49:00 +0000",
    ] {
        assert_eq!(values::with_ms(text.as_bytes()), None, "{text}");
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
        r#"{"columns": [["day", true], ["took", false]],
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
    let batch = cut(block, &until()).unwrap();
    let took = [Some(12_929_675), Some(7_000_000_000)];
    assert_eq!(numbers(&batch, "took"), took);
    let days = batch.column(1).as_dictionary::<UInt32Type>();
    let texts: Vec<_> = days.values().as_string::<i32>().iter().collect();
    assert_eq!(texts, [Some("20"), Some("21")]);
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
        let batch = cut(line.as_bytes(), &until()).unwrap();
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
