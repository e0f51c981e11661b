#![allow(clippy::expect_used)]

use super::{Cut, Cutter, Form, Plan};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type, UInt64Type, UInt8Type};

const PLAN: &str = r#"{
    "labels": [[["http.request.method"], ["http.route"]]], "otherwise": [["db.operation"]],
    "outcome": [["http.status_code"]], "peer": ["peer.service"], "host": ["host.name", "ip"],
    "chosen": ["tailsampling.policy"], "queued": ["in queue"], "connection": [".getConnection"]}"#;

fn cutter(form: Form) -> Cutter {
    let plan: Plan = serde_json::from_str(PLAN).expect("the plan is JSON");
    Cutter::new(form, &plan, u64::MAX).expect("it has few keys")
}

/// All of a text, in blocks of this size.
fn cut(form: Form, text: &[u8], size: usize) -> Vec<Cut> {
    let mut cutter = cutter(form);
    let mut found: Vec<Cut> = text
        .chunks(size)
        .map(|block| cutter.feed(block, false).expect("a table"))
        .collect();
    found.push(cutter.feed(b"", true).expect("a table"));
    found
}

/// Kind, begin, end, service, label, outcome, peer and host of each span.
fn rows(found: &[Cut]) -> Vec<String> {
    let mut all = Vec::new();
    for cut in found {
        let code = |name: &str, row: usize| {
            let column = cut.rows.column_by_name(name).expect("a column");
            let number = column.as_primitive::<UInt32Type>().value(row) as usize;
            cut.texts[number].replace('\u{1f}', "|")
        };
        let number = |name: &str, row: usize| {
            let column = cut.rows.column_by_name(name).expect("a column");
            column.as_primitive::<Int64Type>().value(row)
        };
        for row in 0..cut.rows.num_rows() {
            let kind = cut.rows.column_by_name("kind").expect("a column");
            let texts = ["service", "label", "outcome", "peer", "host"].map(|name| code(name, row));
            all.push(format!(
                "{} {} {} {}",
                kind.as_primitive::<UInt8Type>().value(row),
                number("begin", row),
                number("end", row),
                texts.join(" ")
            ));
        }
    }
    all
}

const OTLP: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"web"}},
 {"key":"host.name","value":{"stringValue":"h1"}}]},"scopeSpans":[{"scope":{"x":[1,{"y":"]}"}]},"spans":[
 {"traceId":"01","spanId":"0a","parentSpanId":"","kind":2,"name":"n","startTimeUnixNano":"10","endTimeUnixNano":20,
  "attributes":[{"key":"http.request.method","value":{"stringValue":"GET"}},{"value":{"stringValue":"/x"},"key":"http.route"},
  {"key":"http.status_code","value":{"intValue":"503"}},{"key":"ip","value":{"stringValue":"h2"}}],"status":{"code":2}}]}]}]}
{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01","spanId":"0b","parentSpanId":"0a","kind":"SPAN_KIND_CLIENT",
 "name":"SELECT","startTimeUnixNano":"11","endTimeUnixNano":"12","attributes":[{"key":"db.operation","value":{"stringValue":
 "SELECT"}},{"key":"peer.service","value":{"stringValue":"db"}}]},7,{"traceId":"01"}]}],"resource":{"attributes":[{"key":
 "service.name","value":{"stringValue":"app"}}]}}]}"#;
const OTLP_ROWS: [&str; 2] = [
    "2 10 20 web 0|GET|/x 1|503  h1",
    "3 11 12 app 1|SELECT|SELECT 0| db ",
];

#[test]
fn otlp_is_the_same_in_blocks_of_any_size() {
    for size in [1, 7, 100, 1 << 20] {
        let found = cut(Form::Otlp, OTLP.as_bytes(), size);
        assert_eq!(rows(&found), OTLP_ROWS, "{size}");
        assert_eq!(found.iter().map(|cut| cut.without).sum::<u32>(), 1);
        assert_eq!(found.iter().map(|cut| cut.damaged).sum::<u32>(), 0);
    }
}

#[test]
fn a_damaged_element_is_left_out_as_a_whole() {
    let damaged = OTLP.replacen("\"kind\":2", "\"kind\":2x", 1);
    for size in [1, 1 << 20] {
        let found = cut(Form::Otlp, damaged.as_bytes(), size);
        assert_eq!(rows(&found), OTLP_ROWS[1..], "{size}");
        assert_eq!(found.iter().map(|cut| cut.damaged).sum::<u32>(), 1);
    }
    let found = cut(Form::Otlp, &OTLP.as_bytes()[..OTLP.len() - 2], 1 << 20);
    assert_eq!(rows(&found), OTLP_ROWS[..1]);
    assert_eq!(found.last().map(|cut| cut.damaged), Some(1));
}

#[test]
fn reading_ends_after_too_many_damaged_elements() {
    let found = cut(
        Form::Otlp,
        &b"{\"resourceSpans\":[x]}\n".repeat(2_000),
        1 << 20,
    );
    assert_eq!(found.iter().map(|cut| cut.damaged).sum::<u32>(), 1_001);
    assert!(found.iter().any(|cut| cut.stopped.is_some()));
}

#[test]
fn jaeger_has_the_service_and_the_tags_of_a_process_that_comes_after_its_spans() {
    let text = r#"{"data":[{"traceID":"t","spans":[{"traceID":"t","spanID":"b","references":[{"refType":"CHILD_OF",
        "traceID":"t","spanID":"a"}],"operationName":"op","startTime":5,"duration":2,"processID":"p1","warnings":
        ["its timestamps were adjusted by 1ms"],"tags":[{"key":"span.kind","value":"server"},{"key":"error","value":true}]}],
        "processes":{"p1":{"serviceName":"web","tags":[{"key":"ip","value":"10.0.0.3"}]}}}],"total":0}"#;
    for size in [3, 1 << 20] {
        let found = cut(Form::Jaeger, text.as_bytes(), size);
        assert_eq!(rows(&found), ["2 5000 7000 web 1||op 1|  10.0.0.3"]);
    }
    let found = cut(Form::Jaeger, text.as_bytes(), 1 << 20);
    let marks = found[0].rows.column_by_name("marks").expect("a column");
    assert_eq!(marks.as_primitive::<UInt8Type>().value(0), 1);
}

#[test]
fn zipkin_has_spans_or_lists_of_spans() {
    let span = r#"{"traceId":"t","id":"a","kind":"CLIENT","name":"op","timestamp":5,"duration":"2",
        "localEndpoint":{"serviceName":"web","ipv4":"10.0.0.3"},"remoteEndpoint":{"serviceName":"db"},"tags":{"error":""}}"#;
    let expected = ["3 5000 7000 web 1||op 1| db 10.0.0.3"; 2];
    for text in [format!("[{span},{span}]"), format!("[[{span}],[{span}]]")] {
        for size in [5, 1 << 20] {
            assert_eq!(rows(&cut(Form::Zipkin, text.as_bytes(), size)), expected);
        }
    }
}

/// A field of protobuf that has a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("it is short");
    assert!(length < 0x80, "its length has one byte");
    [&[number << 3 | 2, length], content].concat()
}

fn protobuf() -> Vec<u8> {
    let text = |key: &str, value: &str| {
        [
            field(1, key.as_bytes()),
            field(2, &field(1, value.as_bytes())),
        ]
        .concat()
    };
    let resource = field(1, &field(1, &text("service.name", "web")));
    let mut span = [field(1, &[1]), field(2, &[10]), field(5, b"n")].concat();
    span.extend([6 << 3, 2, 7 << 3 | 1]);
    span.extend(10_u64.to_le_bytes());
    span.push(8 << 3 | 1);
    span.extend(20_u64.to_le_bytes());
    span.extend(field(
        9,
        &[field(1, b"http.status_code"), field(2, &[3 << 3, 0xF7, 3])].concat(),
    ));
    span.extend(field(15, &[3 << 3, 2]));
    field(1, &[resource, field(2, &field(2, &span))].concat())
}

#[test]
fn protobuf_and_json_name_a_span_by_the_same_key() {
    let message = protobuf();
    let framed = [&(message.len() as u32).to_be_bytes(), &message[..]]
        .concat()
        .repeat(3);
    let expected = "2 10 20 web 1||n 1|503  ";
    assert_eq!(rows(&cut(Form::Message, &message, 7)), [expected]);
    for size in [1, 1 << 20] {
        assert_eq!(rows(&cut(Form::Frames, &framed, size)), [expected; 3]);
    }
    let key = |form, text: &[u8]| {
        let found = cut(form, text, 1 << 20);
        let with_rows = found
            .iter()
            .find(|cut| cut.rows.num_rows() > 0)
            .expect("a span");
        let column = with_rows.rows.column_by_name("key").expect("a column");
        column.as_primitive::<UInt64Type>().value(0)
    };
    assert_eq!(
        key(Form::Message, &message),
        key(Form::Otlp, OTLP.as_bytes())
    );
    assert_eq!(
        key(Form::Message, &message),
        super::Trace::of(b"01").key_of_span(b"0a")
    );
}

#[test]
fn packed_messages_are_unpacked_within_bounds() {
    let packed = |message: &[u8]| zstd::encode_all(message, 3).expect("it packs");
    let frame = |content: &[u8]| [&(content.len() as u32).to_be_bytes(), content].concat();
    let both = [
        frame(&packed(&protobuf())),
        frame(&packed(OTLP.as_bytes())),
        frame(b"\x28\xb5\x2f\xfdx"),
    ]
    .concat();
    let found = cut(Form::Frames, &both, 1 << 20);
    assert_eq!(rows(&found).len(), 3);
    assert_eq!(found[0].damaged, 1);
    // 40 MiB of spaces in some kilobytes: it is damaged, and the expansion ends the reading.
    let bomb = frame(&packed(&vec![b' '; 40 << 20]));
    let found = cut(Form::Frames, &bomb.repeat(8), 1 << 20);
    assert!(found[0]
        .stopped
        .as_deref()
        .is_some_and(|why| why.contains("128 times")));
}

#[test]
fn messages_that_cannot_be_used_count_as_well() {
    let frame = |content: &[u8]| [&(content.len() as u32).to_be_bytes(), content].concat();
    let packed = zstd::encode_all(&vec![b' '; 65 << 20][..], 3).expect("it packs");
    let cut = &packed[..packed.len() - 1];
    for bomb in [&packed[..], cut] {
        let found = super::tests::cut(Form::Frames, &frame(bomb).repeat(20), 1 << 20);
        assert!(
            (4..=5).contains(&found[0].damaged),
            "reading ends where they are 256 MiB"
        );
        assert!(found[0].stopped.is_some());
    }
}

#[test]
fn what_messages_expand_to_is_bounded_by_the_size_of_their_file() {
    let spaces = |mib: usize| zstd::encode_all(&vec![b' '; mib << 20][..], 3).expect("it packs");
    let mut framed = Vec::new();
    for packed in vec![spaces(40); 7] {
        framed.extend((packed.len() as u32 + 400_000).to_be_bytes());
        framed.extend(packed);
        // A skippable frame, as long as one pleases, which a packed file holds in a few bytes.
        framed.extend(b"\x50\x2a\x4d\x18");
        framed.extend((400_000_u32 - 8).to_le_bytes());
        framed.extend(vec![0; 400_000 - 8]);
    }
    for (size, stops) in [(framed.len() as u64, false), (1_000, true)] {
        let plan: Plan = serde_json::from_str(PLAN).expect("the plan is JSON");
        let mut cutter = Cutter::new(Form::Frames, &plan, size).expect("it has few keys");
        let found = cutter.feed(&framed, true).expect("a table");
        assert_eq!(found.stopped.is_some(), stops, "{size}");
    }
}

#[test]
fn damaged_elements_inside_each_other_are_not_parsed_again_and_again() {
    let begun = b"{\"resourceSpans\":[".repeat(60);
    for end in ["", "\x01", "\"x"] {
        let filler = [b"\"", &vec![b'a'; 12 << 20][..]].concat();
        let text = [&begun[..], &filler, end.as_bytes()].concat();
        let found = cut(Form::Otlp, &text, 1 << 22);
        let damaged: u32 = found.iter().map(|cut| cut.damaged).sum();
        assert!(damaged < 13, "{damaged} times 12 MiB, with {end:?}");
        let stopped = found.iter().find_map(|cut| cut.stopped.as_deref());
        assert!(stopped.is_some_and(|why| why.contains("inside each other")));
    }
}

#[test]
fn a_duration_that_ends_beyond_all_time_ends_there() {
    let text = r#"[{"traceId":"t","id":"a","kind":"SERVER","timestamp":9000000000000000,"duration":9000000000000000,
        "localEndpoint":{"serviceName":"web"}}]"#;
    let expected = format!("2 9000000000000000000 {} web 1|| 0|  ", i64::MAX);
    assert_eq!(
        rows(&cut(Form::Zipkin, text.as_bytes(), 1 << 20)),
        [expected]
    );
}

#[test]
fn what_is_cut_or_has_an_impossible_length_ends_the_reading() {
    let message = protobuf();
    let framed = [&(message.len() as u32).to_be_bytes(), &message[..]].concat();
    let found = cut(
        Form::Frames,
        &[&framed[..], &[0, 0, 1, 0, 10]].concat(),
        1 << 20,
    );
    assert_eq!(rows(&found).len(), 1);
    assert_eq!(found[1].stopped.as_deref(), Some("its last message is cut"));
    let found = cut(Form::Frames, &[&framed[..], &[0xFF; 8]].concat(), 1 << 20);
    assert_eq!(rows(&found).len(), 1);
    assert!(found[0]
        .stopped
        .as_deref()
        .is_some_and(|why| why.contains("too long")));
    for len in 1..message.len() {
        assert_eq!(
            cut(Form::Message, &message[..len], 1 << 20)[1].damaged,
            1,
            "{len}"
        );
    }
}

#[test]
fn a_trace_of_tempos_second_api_is_read() {
    let (first, second) = OTLP.split_once("\n{\"res").expect("two values");
    let text = format!(r#"{{"trace":{first},"metrics":{{}}}} {{"trace":{{"res{second}}}"#);
    let found = cut(Form::Otlp, text.as_bytes(), 1 << 20);
    assert_eq!(rows(&found), OTLP_ROWS);
    for other in [r#"{"trace":[]}"#, r#"{"trace":{"trace":{}}}"#] {
        let found = cut(Form::Otlp, other.as_bytes(), 1 << 20);
        assert!(rows(&found).is_empty());
    }
}

#[test]
fn an_inner_span_that_is_a_wait_is_marked() {
    let spans = [
        ("in queue", 1, 4),
        ("In Queue", 0, 4),
        ("in queue", 2, 0),
        ("not in queue", 1, 0),
        ("HikariDataSource.getConnection", 1, 8),
        (".getconnection", 1, 8),
        ("shop.getConnection", 3, 8),
        ("getConnection", 1, 0),
        ("HikariDataSource.getConnection", 2, 0),
        ("", 1, 0),
    ];
    let about = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"web"}}]}"#;
    let spans_of = |(number, (name, kind, _)): (usize, &(&str, u8, u8))| {
        format!(
            r#"{{"traceId":"1","spanId":"a{number}","kind":{kind},"name":"{name}","startTimeUnixNano":1,"endTimeUnixNano":2}}"#
        )
    };
    let text: Vec<String> = spans.iter().enumerate().map(spans_of).collect();
    let text = format!(
        r#"{{"resourceSpans":[{{"resource":{about},"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
        text.join(",")
    );
    let found = cut(Form::Otlp, text.as_bytes(), 1 << 20);
    let marks = found[0].rows.column_by_name("marks").expect("a column");
    let expected: Vec<u8> = spans.iter().map(|&(_, _, mark)| mark).collect();
    assert_eq!(marks.as_primitive::<UInt8Type>().values(), &expected);
    let kinds = found[0].rows.column_by_name("kind").expect("a column");
    assert_eq!(kinds.as_primitive::<UInt8Type>().value(6), 0);
}
