#![allow(clippy::expect_used)]

use super::{Halves, ROOM};

const DAY: &str = "2026-11-20T16:49:0";

fn begin(seconds: &str, mark: &str, path: &str) -> String {
    format!("I, [{DAY}{seconds} #22]  INFO -- : {mark}Started GET \"{path}\" for ::1 at 2026-11-20 16:49:00 +0000\n")
}

fn end(seconds: &str, mark: &str, took: &str) -> String {
    format!(
        "I, [{DAY}{seconds} #22]  INFO -- : {mark}Completed 200 OK in {took}ms (Views: 1.0ms)\n"
    )
}

/// The paths in the lines of the ends.
fn paths(halves: &mut Halves, block: &str) -> Vec<String> {
    let joined = halves.join(block.as_bytes());
    let joined = joined.map_or(block.to_owned(), |bytes| {
        String::from_utf8(bytes).expect("it is a text")
    });
    assert_eq!(joined.lines().count(), block.lines().count());
    let of_end = |line: &str| {
        let (before, _) = line.split_once("Completed")?;
        Some(before.split('"').nth(1).unwrap_or("-").to_owned())
    };
    joined.lines().filter_map(of_end).collect()
}

#[test]
fn the_name_of_a_request_is_put_into_the_line_of_its_end() {
    let mut halves = Halves::default();
    let block =
        begin("0.100000", "[9f2a] ", "/a?b=c") + &end("0.112500", "[9f2a] ", "12") + "other\n";
    let joined = halves.join(block.as_bytes()).expect("one has a name");
    let whole = end("0.112500", "[9f2a] Started GET \"/a?b=c\" ", "12");
    assert_eq!(
        String::from_utf8(joined).expect("it is a text"),
        begin("0.100000", "[9f2a] ", "/a?b=c") + &whole + "other\n"
    );
    assert_eq!((halves.named, halves.nameless), (1, 0));
    assert_eq!(halves.join(b"other\nlines"), None);
}

#[test]
fn tags_tell_requests_at_once_apart_also_across_blocks() {
    let mut halves = Halves::default();
    let first = begin("0.100", "[a] ", "/a")
        + &begin("0.101", "[b] ", "/b")
        + &end("0.110", "[b] ", "8.25");
    assert_eq!(paths(&mut halves, &first), ["/b"]);
    assert_eq!(paths(&mut halves, &end("1.303", "[a] ", "1203")), ["/a"]);
    assert_eq!(paths(&mut halves, &end("1.304", "[c] ", "3")), ["-"]);
    assert_eq!((halves.named, halves.nameless), (2, 1));
}

#[test]
fn the_mark_begins_behind_the_stamp_whatever_comes_there() {
    for between in [" 4711 INFO [9f2a] ", "Z [9f2a] ", " "] {
        let stamp = |text: &str| format!("{DAY}{text}{between}");
        let block = stamp("0,100")
            + "Started GET \"/a\" for ::1\n"
            + &stamp("0,112")
            + "Completed 200 OK in 12ms\n";
        assert_eq!(paths(&mut Halves::default(), &block), ["/a"], "{between}");
    }
}

#[test]
fn a_process_without_tags_names_requests_one_after_the_other_and_none_at_once() {
    let mut halves = Halves::default();
    let one = begin("0.1", "", "/a") + &end("0.2", "", "10");
    assert_eq!(
        paths(&mut halves, &one),
        ["-"],
        "stamps have three decimals"
    );
    let alone = begin("0.100", "", "/a")
        + &end("0.110", "", "9")
        + &begin("0.120", "", "/b")
        + &end("0.130", "", "9");
    assert_eq!(paths(&mut halves, &alone), ["/a", "/b"]);
    let together = begin("1.100", "", "/a")
        + &begin("1.101", "", "/b")
        + &end("1.110", "", "8")
        + &end("1.120", "", "19");
    assert_eq!(paths(&mut halves, &together), ["-", "-"]);
    let later = begin("2.100", "", "/c") + &end("2.110", "", "9");
    assert_eq!(paths(&mut halves, &later), ["/c"]);
}

#[test]
fn a_request_that_never_ends_leaves_later_ones_of_its_mark_without_names() {
    let mut halves = Halves::default();
    let block = begin("0.100", "", "/missing") + &begin("0.200", "", "/b") + &end("0.210", "", "9");
    assert_eq!(paths(&mut halves, &block), ["-"]);
    assert_eq!(
        paths(
            &mut halves,
            &(begin("0.300", "", "/c") + &end("0.310", "", "9"))
        ),
        ["-"]
    );
}

#[test]
fn an_end_of_a_request_that_began_before_the_log_has_no_name_of_another() {
    let mut halves = Halves::default();
    // It began 50 ms before the only start in the log, which has the same mark.
    let block = begin("0.100", "", "/b") + &end("0.110", "", "60") + &end("0.120", "", "19");
    assert_eq!(paths(&mut halves, &block), ["-", "-"]);
    // Stamps and durations are rounded: 99.9 ms + 12.4 ms is 112 ms.
    let rounded = begin("3.099900", "", "/c") + &end("3.112000", "", "12");
    assert_eq!(paths(&mut halves, &rounded), ["/c"]);
}

#[test]
fn lines_that_look_alike_are_left_as_they_are() {
    let mut halves = Halves::default();
    for text in [
        begin("0.100", "[a] ", "/a").replace("GET", "get"),
        begin("0.100", "[a] ", &"/a".repeat(3000)),
        begin("0.100", "[a] ", "/a").replace("2026", "20x6"),
        begin("0.100", &"[a]".repeat(200), "/a"),
        begin("0.100", "[a] ", "/a").replace("\" for", "\""),
        "Started GET \"/a\" for ::1\nStarted \nCompleted \n".to_owned(),
    ] {
        let block = text + &end("0.112", "[a] ", "12");
        assert_eq!(halves.join(block.as_bytes()), None, "{block}");
    }
    for took in ["x", "", "1.", "1234567890"] {
        let block = begin("0.100", "[a] ", "/a") + &end("0.112", "[a] ", took);
        assert_eq!(paths(&mut Halves::default(), &block), ["-"], "{took}");
    }
}

#[test]
fn requests_that_never_end_take_bounded_memory() {
    let mut halves = Halves::default();
    let path = "/x".repeat(1000);
    let starts = 3 * ROOM / path.len();
    for number in 0..starts {
        halves.join(begin("0.100", &format!("[{number}] "), &path).as_bytes());
    }
    assert!(halves.kept <= ROOM && halves.open.len() < starts / 2);
    assert_eq!(halves.open.len(), halves.order.len());
    let last = end("0.112", &format!("[{}] ", starts - 1), "12");
    assert_eq!(paths(&mut halves, &last), [path.as_str()]);
    assert_eq!(paths(&mut halves, &end("0.112", "[0] ", "12")), ["-"]);
}
