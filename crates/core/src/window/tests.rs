//! Laws of the reduction, and its equality with a sweep over single events.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod refused;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, UInt8Array,
};
use proptest::prelude::*;

use crate::record::file::TableFile;

use super::histogram::{bucket, midpoint, QUANTILES};
use super::*;

const MS: i64 = 1_000_000;

#[derive(Clone, Debug)]
struct Row {
    server: Option<&'static str>,
    interaction: Option<&'static str>,
    sent: Option<i64>,
    arrival: Option<i64>,
    departure: Option<i64>,
    drops: Option<u8>,
}

fn visit(server: &'static str, arrival: i64, departure: i64) -> Row {
    Row {
        server: Some(server),
        interaction: None,
        sent: Some(arrival),
        arrival: Some(arrival),
        departure: Some(departure),
        drops: Some(0),
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "tailrace-window-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, rows: &[Row]) -> PathBuf {
        write(&self.0.join(name), rows)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn batch(rows: &[Row]) -> RecordBatch {
    let names = |pick: fn(&Row) -> Option<&'static str>| {
        Arc::new(
            rows.iter()
                .map(pick)
                .collect::<DictionaryArray<Int32Type>>(),
        ) as ArrayRef
    };
    let times = |pick: fn(&Row) -> Option<i64>| {
        Arc::new(rows.iter().map(pick).collect::<Int64Array>()) as ArrayRef
    };
    RecordBatch::try_from_iter_with_nullable([
        ("server", names(|r| r.server), true),
        ("interaction", names(|r| r.interaction), true),
        ("sent", times(|r| r.sent), true),
        ("arrival", times(|r| r.arrival), true),
        ("departure", times(|r| r.departure), true),
        (
            "drops",
            Arc::new(rows.iter().map(|r| r.drops).collect::<UInt8Array>()) as ArrayRef,
            true,
        ),
    ])
    .unwrap()
}

fn write(path: &Path, rows: &[Row]) -> PathBuf {
    let batch = batch(rows);
    let mut table = TableFile::new(File::create(path).unwrap(), batch.schema()).unwrap();
    let group_rows = 16.max(rows.len() / 8);
    for begin in (0..rows.len()).step_by(group_rows) {
        let count = group_rows.min(rows.len() - begin);
        table.write(&batch.slice(begin, count)).unwrap();
        table.end_group().unwrap();
    }
    table.close().unwrap();
    path.to_path_buf()
}

fn plan(window_ns: i64) -> Plan {
    Plan {
        window_ns,
        threads: 1,
        vlrt_ns: 20 * MS,
        ..Plan::default()
    }
}

fn reduced(rows: &[Row], plan: &Plan) -> RecordBatch {
    let folder = Folder::new();
    reduce(&[folder.write("visits.parquet", rows)], plan)
        .unwrap()
        .windows
}

fn ints(windows: &RecordBatch, name: &str) -> Vec<i64> {
    windows
        .column_by_name(name)
        .unwrap()
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

fn floats(windows: &RecordBatch, name: &str) -> Vec<f64> {
    windows
        .column_by_name(name)
        .unwrap()
        .as_primitive::<Float64Type>()
        .values()
        .to_vec()
}

fn texts(windows: &RecordBatch, name: &str) -> Vec<Option<String>> {
    let column = windows
        .column_by_name(name)
        .unwrap()
        .as_dictionary::<Int32Type>();
    let column = column.downcast_dict::<StringArray>().unwrap();
    column
        .into_iter()
        .map(|name| name.map(str::to_string))
        .collect()
}

/// One window of one server, event by event.
#[derive(Debug, PartialEq)]
struct Naive {
    arrivals: i64,
    departures: i64,
    queue_start: i64,
    queue_area: i64,
    queue_max: i64,
    response_sum: i64,
    percentiles: [Option<i64>; 4],
    vlrt: i64,
    drops: i64,
}

fn naive(visits: &[&Row], window: i64, window_ns: i64, vlrt_ns: i64) -> Naive {
    let end = window + window_ns;
    let inside = |t: i64| window <= t && t < end;
    let times: Vec<(i64, i64)> = visits
        .iter()
        .map(|r| (r.arrival.unwrap(), r.departure.unwrap()))
        .collect();
    let present = |t: i64| times.iter().filter(|(a, d)| *a <= t && t < *d).count() as i64;
    let instants = times
        .iter()
        .flat_map(|(a, d)| [*a, *d])
        .filter(|t| inside(*t))
        .chain([window]);
    let mut responses: Vec<i64> = times
        .iter()
        .filter(|(_, d)| inside(*d))
        .map(|(a, d)| d - a)
        .collect();
    responses.sort_unstable();
    let arrived: Vec<&&Row> = visits
        .iter()
        .filter(|r| inside(r.arrival.unwrap()))
        .collect();
    let late = |r: &Row| r.departure.unwrap() - r.sent.or(r.arrival).unwrap() >= vlrt_ns;
    Naive {
        arrivals: arrived.len() as i64,
        departures: responses.len() as i64,
        queue_start: times
            .iter()
            .filter(|(a, d)| *a < window && window <= *d)
            .count() as i64,
        queue_area: times
            .iter()
            .map(|(a, d)| (*d.min(&end) - *a.max(&window)).max(0))
            .sum(),
        queue_max: instants.map(present).max().unwrap(),
        response_sum: responses.iter().sum(),
        percentiles: QUANTILES.map(|q| {
            let rank = (responses.len() as u64 * q.numerator).div_ceil(q.denominator) as usize;
            responses
                .get(rank.wrapping_sub(1))
                .map(|&ns| midpoint(bucket(ns as u64)) as i64)
        }),
        vlrt: arrived.iter().filter(|r| late(r)).count() as i64,
        drops: arrived
            .iter()
            .map(|r| i64::from(r.drops.unwrap_or(0)))
            .sum(),
    }
}

fn assert_equals_naive(rows: &[Row], plan: &Plan, windows: &RecordBatch) {
    let valid =
        |r: &&Row| r.server.is_some() && r.arrival.zip(r.departure).is_some_and(|(a, d)| a <= d);
    let visits: Vec<&Row> = rows.iter().filter(valid).collect();
    let servers = texts(windows, "server");
    let interactions = plan.by_interaction.then(|| texts(windows, "interaction"));
    let means = windows
        .column_by_name("response_ns_mean")
        .unwrap()
        .as_primitive::<Float64Type>();
    let percentile = ["p50", "p95", "p99", "p999"]
        .map(|p| windows.column_by_name(&format!("response_ns_{p}")).unwrap());
    let names = [
        "window",
        "arrivals",
        "departures",
        "queue_start",
        "queue_area_ns",
        "queue_max",
        "vlrt",
        "drops",
    ];
    let columns = names.map(|name| ints(windows, name));
    let queue_mean = floats(windows, "queue_mean");
    for row in 0..windows.num_rows() {
        let mine: Vec<&Row> = visits
            .iter()
            .filter(|r| r.server == servers[row].as_deref())
            .filter(|r| {
                interactions
                    .as_ref()
                    .is_none_or(|i| r.interaction == i[row].as_deref())
            })
            .copied()
            .collect();
        let [window, arrivals, departures, queue_start, queue_area, queue_max, vlrt, drops] =
            columns.each_ref().map(|column| column[row]);
        let expected = naive(&mine, window, plan.window_ns, plan.vlrt_ns);
        let percentiles = percentile.map(|column| {
            let column = column.as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        });
        let response_sum = expected.response_sum;
        let got = Naive {
            arrivals,
            departures,
            queue_start,
            queue_area,
            queue_max,
            response_sum,
            percentiles,
            vlrt,
            drops,
        };
        assert_eq!(got, expected, "{:?} at {window}", servers[row]);
        assert_eq!(
            queue_mean[row],
            expected.queue_area as f64 / plan.window_ns as f64
        );
        assert_eq!(means.is_valid(row), departures > 0);
        if departures > 0 {
            assert_eq!(means.value(row), response_sum as f64 / departures as f64);
        }
    }
}

/// Moments on a coarse grid, so that equal nanoseconds and window edges are common.
fn moments() -> impl Strategy<Value = i64> {
    prop_oneof![
        (-40i64..60).prop_map(|t| t * MS / 2),
        (-20 * MS..30 * MS),
        (-3i64..3).prop_map(|t| t * 10 * MS - 1),
    ]
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let server = prop_oneof![8 => Just(Some("web")), 4 => Just(Some("app")), 1 => Just(None)];
    let interaction = prop_oneof![Just(Some("read")), Just(Some("write")), Just(None)];
    let length = prop_oneof![6 => 0i64..8 * MS, 2 => Just(0), 2 => (0i64..9).prop_map(|t| t * 5 * MS), 1 => Just(-1)];
    let some = |p: f64| prop::bool::weighted(p);
    let row = (
        server,
        interaction,
        moments(),
        length,
        0i64..30 * MS,
        0u8..3,
        some(0.9),
        some(0.95),
        some(0.95),
    );
    let row = row.prop_map(
        |(server, interaction, arrival, length, early, drops, sent, arrived, departed)| Row {
            server,
            interaction,
            sent: sent.then_some(arrival - early),
            arrival: arrived.then_some(arrival),
            departure: departed.then_some(arrival + length),
            drops: sent.then_some(drops),
        },
    );
    prop::collection::vec(row, 0..80)
}

#[test]
fn years_of_silence_cost_nothing() {
    let day = 86_400_000 * MS;
    let rows: Vec<Row> = (0..12)
        .map(|n| visit("web", n * 90 * day, n * 90 * day + 3 * MS))
        .collect();
    let sparse = Plan {
        idle_windows: Some(10),
        ..plan(50 * MS)
    };
    let windows = reduced(&rows, &sparse);
    assert!(windows.num_rows() <= 12 * 21);
    assert_eq!(ints(&windows, "arrivals").iter().sum::<i64>(), 12);
}

proptest! {
    #[test]
    fn equals_a_sweep_over_single_events(rows in rows(), window_ms in 1i64..15, by_interaction: bool) {
        let plan = Plan { by_interaction, ..plan(window_ms * MS) };
        assert_equals_naive(&rows, &plan, &reduced(&rows, &plan));
    }

    #[test]
    fn begin_and_end_cut_without_changing_a_window(rows in rows(), begin in -20i64..20, length in 1i64..30) {
        let begin = begin * MS + 1;
        let bounded = Plan { begin: Some(begin), end: Some(begin + length * MS), ..plan(5 * MS) };
        let windows = reduced(&rows, &bounded);
        assert_equals_naive(&rows, &bounded, &windows);
        if windows.num_rows() > 0 {
            let starts = ints(&windows, "window");
            prop_assert_eq!(starts[0], begin - begin.rem_euclid(5 * MS));
            let last = starts[starts.len() - 1];
            prop_assert!(last < begin + length * MS && begin + length * MS <= last + 5 * MS);
        }
    }

    #[test]
    fn the_middle_of_silent_stretches_is_left_out_and_nothing_else(
        rows in rows(), window_ms in 1i64..4, idle in 0u32..5, bounded: bool,
    ) {
        let edge = |at| bounded.then_some(at);
        let dense = Plan { begin: edge(-90 * MS), end: edge(90 * MS), ..plan(window_ms * MS) };
        let sparse = Plan { idle_windows: Some(idle), ..dense.clone() };
        let (all, some) = (reduced(&rows, &dense), reduced(&rows, &sparse));
        let starts = ints(&all, "window");
        let mut events: Vec<i64> = ints(&all, "arrivals").iter().zip(ints(&all, "departures"))
            .zip(&starts).filter(|((a, d), _)| **a + d > 0).map(|(_, &start)| start).collect();
        events.sort_unstable();
        // Stretches end at events, and at the ends of the requested interval.
        let (first, last) = (starts.iter().min().copied(), starts.iter().max().copied());
        let wide = i64::from(idle) * window_ms * MS;
        let kept: Vec<bool> = starts.iter().map(|&start| {
            let before = events.iter().rev().find(|&&e| e <= start).map_or(first.unwrap() - window_ms * MS, |&e| e);
            let after = events.iter().find(|&&e| e >= start).map_or(last.unwrap() + window_ms * MS, |&e| e);
            let silent = after - before - window_ms * MS;
            silent <= 2 * wide || start - before <= wide || after - start <= wide
        }).collect();
        for name in ["window", "arrivals", "queue_start", "queue_area_ns", "queue_max", "vlrt"] {
            let wanted: Vec<i64> = ints(&all, name).into_iter().zip(&kept).filter(|(_, &k)| k).map(|(v, _)| v).collect();
            prop_assert_eq!(ints(&some, name), wanted, "{}", name);
        }
    }

    #[test]
    fn areas_add_up_to_the_time_spent(rows in rows(), window_ms in 1i64..15) {
        let whole: Vec<Row> = rows.into_iter()
            .filter(|r| r.server.is_some() && r.arrival.zip(r.departure).is_some_and(|(a, d)| a <= d)).collect();
        let windows = reduced(&whole, &plan(window_ms * MS));
        let spent: i64 = whole.iter().map(|r| r.departure.unwrap() - r.arrival.unwrap()).sum();
        prop_assert_eq!(ints(&windows, "queue_area_ns").iter().sum::<i64>(), spent);
    }

    #[test]
    fn halving_the_window_and_adding_up_gives_the_same(rows in rows(), window_ms in 1i64..8) {
        let wide = Plan { begin: Some(-64 * MS), end: Some(64 * MS), ..plan(2 * window_ms * MS) };
        let coarse = reduced(&rows, &wide);
        let (begin, end) = wide.bounds();
        let fine = reduced(&rows, &Plan { window_ns: window_ms * MS, begin: Some(begin), end: Some(end), ..wide });
        for name in ["arrivals", "departures", "queue_area_ns", "vlrt", "drops"] {
            let sums: Vec<i64> = ints(&fine, name).chunks(2).map(|pair| pair.iter().sum()).collect();
            prop_assert_eq!(sums, ints(&coarse, name), "{}", name);
        }
        let highest: Vec<i64> = ints(&fine, "queue_max").chunks(2).map(|pair| *pair.iter().max().unwrap()).collect();
        prop_assert_eq!(highest, ints(&coarse, "queue_max"));
    }

    #[test]
    fn any_split_into_files_gives_the_same_bits(rows in rows(), cut in 0usize..80, threads in 1usize..4) {
        let folder = Folder::new();
        let cut = cut.min(rows.len());
        let plan = Plan { by_interaction: true, threads, ..plan(3 * MS) };
        let one = reduce(&[folder.write("one", &rows)], &plan).unwrap();
        let files = [folder.write("b", &rows[cut..]), folder.write("a", &rows[..cut])];
        let two = reduce(&files, &plan).unwrap();
        prop_assert_eq!(&one.windows, &two.windows);
        prop_assert_eq!((one.rows, one.left_out), (two.rows, two.left_out));
    }

    #[test]
    fn partials_merge_in_any_order_and_survive_arrow(rows in rows(), cut in 0usize..80) {
        let folder = Folder::new();
        let cut = cut.min(rows.len());
        let plan = Plan { begin: Some(-10 * MS), queue_max: false, percentiles: false, ..plan(3 * MS) };
        let of = |name: &str, rows: &[Row]| partial(&Source::open(&[folder.write(name, rows)], false).unwrap(), &plan).unwrap();
        let (whole, a, b) = (of("whole", &rows), of("a", &rows[..cut]), of("b", &rows[cut..]));
        let through_arrow = |p: &Partial| Partial::from_batch(&p.to_batch().unwrap()).unwrap();
        let (mut ab, mut ba) = (through_arrow(&a), b.clone());
        ab.merge(&ba).unwrap();
        ba.merge(&through_arrow(&a)).unwrap();
        let finished = |p: &Partial| finish::finish(p, &[], &plan).unwrap();
        prop_assert_eq!(finished(&ab), finished(&whole));
        prop_assert_eq!(finished(&ba), finished(&whole));
        prop_assert_eq!((ab.rows, ab.left_out), (ba.rows, ba.left_out));
        let columns = [&b, &a].map(|part| Partial::from_columns(&part.to_batch().unwrap()));
        prop_assert_eq!(super::finish(columns, &plan).unwrap().windows, finished(&whole));
    }
}

#[test]
fn a_visit_that_takes_over_at_the_same_nanosecond_does_not_raise_the_queue() {
    let rows = [visit("db", 0, 7), visit("db", 7, 7), visit("db", 7, 12)];
    let windows = reduced(&rows, &plan(MS));
    assert_eq!(ints(&windows, "queue_max"), [1]);
    assert_eq!(ints(&windows, "queue_area_ns"), [12]);
}

#[test]
fn a_departure_on_the_edge_belongs_to_the_next_window_and_leaves_its_queue_at_once() {
    let windows = reduced(&[visit("db", 0, MS), visit("db", MS, 2 * MS)], &plan(MS));
    assert_eq!(ints(&windows, "departures"), [0, 1, 1]);
    assert_eq!(ints(&windows, "queue_start"), [0, 1, 1]);
    assert_eq!(ints(&windows, "queue_max"), [1, 1, 0]);
}

#[test]
fn windows_of_negative_moments_start_at_or_before_them() {
    let windows = reduced(&[visit("db", -1, 1)], &plan(MS));
    assert_eq!(ints(&windows, "window"), [-MS, 0]);
    assert_eq!(ints(&windows, "queue_area_ns"), [1, 1]);
}

#[test]
fn an_empty_table_gives_no_windows_but_their_columns() {
    let windows = reduced(
        &[],
        &Plan {
            by_interaction: true,
            ..plan(MS)
        },
    );
    assert_eq!((windows.num_rows(), windows.num_columns()), (0, 16));
}

/// Long enough to slide the block, with stragglers that arrived before it and files out of order.
#[test]
fn a_long_run_equals_the_sweep_across_moves_of_the_block() {
    let mut random = 7u64;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    let server = ["web", "app", "db"];
    let mut rows: Vec<Row> = (0..60_000)
        .map(|i| {
            let departure = i * 20 * MS + next(20_000_000) as i64;
            let length = if next(50) == 0 {
                next(400_000) as i64 * MS
            } else {
                next(60) as i64 * MS
            };
            visit(server[next(3) as usize], departure - length, departure)
        })
        .collect();
    let plan = Plan {
        window_ns: 10 * MS,
        percentiles: false,
        queue_max: false,
        ..plan(MS)
    };
    let (begin, end) = (-400_000 * MS, 1_200_000 * MS);
    let spent: i64 = rows
        .iter()
        .map(|r| r.departure.unwrap() - r.arrival.unwrap())
        .sum();
    let sorted = reduced(&rows, &plan);
    assert_eq!(ints(&sorted, "queue_area_ns").iter().sum::<i64>(), spent);
    rows.reverse();
    assert_eq!(reduced(&rows, &plan), sorted);
    let some = Plan {
        begin: Some(end / 2),
        end: Some(end / 2 + 40 * 10 * MS),
        queue_max: true,
        percentiles: true,
        ..plan
    };
    assert_equals_naive(&rows, &some, &reduced(&rows, &some));
    assert!(begin < ints(&sorted, "window")[0]);
}
