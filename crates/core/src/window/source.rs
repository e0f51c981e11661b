//! visits.parquet files as column slices. Only the needed columns are read, row group by row group,
//! on every core. The statistics in a file's footer show which row groups a span of time does not
//! need.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::DataType;

use super::groups::{Group, Groups};
use super::kernel::Rows;
use crate::error::{Error, Result};
use crate::record::read::{Batches, Table};
use crate::record::types;

/// Rows per batch: five columns of it (120 kB) stay in the core's cache from decoding to summing.
const BATCH_ROWS: usize = 1 << 12;
const TIMES: [&str; 3] = ["sent", "arrival", "departure"];

/// One row group of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowGroup {
    file: usize,
    row_group: usize,
    /// Least arrival and greatest departure, if the footer has them.
    arrival_min: Option<i64>,
    departure_max: Option<i64>,
}

impl RowGroup {
    /// Whether a visit in it may be present in [begin, end] or depart at `begin`.
    pub fn overlaps(&self, begin: i64, end: i64) -> bool {
        self.arrival_min.is_none_or(|t| t < end) && self.departure_max.is_none_or(|t| t >= begin)
    }
}

#[derive(Debug)]
pub struct Source {
    tables: Vec<Table>,
    by_interaction: bool,
    groups: Groups,
}

/// What one thread keeps between batches.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The dictionary the group table was made for.
    servers: Option<StringArray>,
    table: Vec<u32>,
    identity: Vec<u32>,
    keys: Vec<i32>,
    sent: Vec<i64>,
    arrival: Vec<i64>,
    departure: Vec<i64>,
    drops: Vec<u8>,
}

impl Source {
    pub fn open(paths: &[PathBuf], by_interaction: bool) -> Result<Self> {
        let tables = paths
            .iter()
            .map(|path| open(path, by_interaction))
            .collect::<Result<_>>()?;
        Ok(Source {
            tables,
            by_interaction,
            groups: Groups::default(),
        })
    }

    pub(crate) fn groups(&self) -> Vec<Group> {
        self.groups.list()
    }

    /// The row groups with a visit that may touch [begin, end).
    pub(crate) fn row_groups(&self, (begin, end): (i64, i64)) -> Vec<RowGroup> {
        let all = self.tables.iter().enumerate().flat_map(|(file, table)| {
            (0..table.row_groups()).map(move |row_group| RowGroup {
                file,
                row_group,
                arrival_min: table.range(row_group, "arrival").map(|range| range.0),
                departure_max: table.range(row_group, "departure").map(|range| range.1),
            })
        });
        all.filter(|group| group.overlaps(begin, end)).collect()
    }

    /// Read one row group, batch by batch.
    pub(crate) fn read(
        &self,
        task: RowGroup,
        scratch: &mut Scratch,
        take: &mut dyn FnMut(Rows) -> Result<()>,
    ) -> Result<()> {
        let table = &self.tables[task.file];
        for batch in batches(table, task.row_group, self.by_interaction)? {
            take(self.rows(table, &batch?, scratch)?)?;
        }
        Ok(())
    }

    /// Decode every column that the reduction reads and do nothing with it: a lower bound for
    /// benchmarks.
    pub fn decode_only(&self, threads: usize) -> Result<u64> {
        let tasks = self.row_groups((i64::MIN, i64::MAX));
        let rows = in_parallel(threads, tasks.len(), |next| {
            let mut rows = 0;
            while let Some(task) = next() {
                let table = &self.tables[tasks[task].file];
                for batch in batches(table, tasks[task].row_group, self.by_interaction)? {
                    rows += std::hint::black_box(batch?).num_rows() as u64;
                }
            }
            Ok(rows)
        })?;
        Ok(rows.iter().sum())
    }

    fn rows<'a>(
        &self,
        table: &Table,
        batch: &'a RecordBatch,
        scratch: &'a mut Scratch,
    ) -> Result<Rows<'a>> {
        let column = |name| column(table, batch, name);
        let server: &DictionaryArray<Int32Type> = column("server")?.as_dictionary();
        let [sent, arrival, departure] = TIMES.map(column);
        let (sent, arrival, departure) = (
            sent?.as_primitive::<Int64Type>(),
            arrival?.as_primitive::<Int64Type>(),
            departure?.as_primitive::<Int64Type>(),
        );
        let drops = column("drops")?.as_primitive::<UInt8Type>();
        let interaction = match self.by_interaction {
            true => Some(column("interaction")?.as_dictionary::<Int32Type>()),
            false => None,
        };
        let whole = [
            server.null_count(),
            sent.null_count(),
            arrival.null_count(),
            departure.null_count(),
        ] == [0; 4];
        if interaction.is_none() {
            self.know_servers(table, server.values(), scratch)?;
            if whole && drops.null_count() == 0 {
                return Ok(Rows {
                    keys: server.keys().values(),
                    table: &scratch.table,
                    sent: sent.values(),
                    arrival: arrival.values(),
                    departure: departure.values(),
                    drops: drops.values(),
                    left_out: 0,
                });
            }
        }
        let pairs = Pairs::new(table, server, interaction, &self.groups)?;
        scratch.fill(pairs, sent, arrival, departure, drops)
    }

    /// Number the servers of a dictionary, once for each dictionary.
    fn know_servers(&self, table: &Table, values: &ArrayRef, scratch: &mut Scratch) -> Result<()> {
        let names = strings(table, values)?;
        // Every batch wraps the dictionary of its page again; the bytes beneath stay in place.
        let same = |known: &StringArray| {
            known.len() == names.len()
                && known.value_data().as_ptr() == names.value_data().as_ptr()
                && known.value_offsets().as_ptr() == names.value_offsets().as_ptr()
        };
        if scratch.servers.as_ref().is_some_and(same) {
            return Ok(());
        }
        let name = |i: usize| if names.is_null(i) { "" } else { names.value(i) };
        let id = |i: usize| {
            self.groups.id(Group {
                server: name(i).to_string(),
                interaction: None,
            })
        };
        scratch.table = (0..names.len()).map(id).collect();
        scratch.servers = Some(names.clone());
        Ok(())
    }
}

/// Rows whose group must be looked up one by one.
struct Pairs<'a> {
    server: &'a DictionaryArray<Int32Type>,
    interaction: Option<&'a DictionaryArray<Int32Type>>,
    servers: &'a StringArray,
    interactions: Option<&'a StringArray>,
    groups: &'a Groups,
    /// (server key, interaction key + 1) → group.
    known: rustc_hash::FxHashMap<(i32, i32), u32>,
}

impl<'a> Pairs<'a> {
    fn new(
        table: &Table,
        server: &'a DictionaryArray<Int32Type>,
        interaction: Option<&'a DictionaryArray<Int32Type>>,
        groups: &'a Groups,
    ) -> Result<Self> {
        let servers = strings(table, server.values())?;
        let interactions = interaction
            .map(|column| strings(table, column.values()))
            .transpose()?;
        Ok(Pairs {
            server,
            interaction,
            servers,
            interactions,
            groups,
            known: Default::default(),
        })
    }

    /// None where the server is unknown.
    fn group(&mut self, row: usize) -> Option<u32> {
        if self.server.is_null(row) {
            return None;
        }
        let server = self.server.keys().value(row);
        let interaction = match self.interaction {
            Some(column) if column.is_valid(row) => column.keys().value(row),
            _ => -1,
        };
        if let Some(&group) = self.known.get(&(server, interaction)) {
            return Some(group);
        }
        let names = self.interactions.filter(|_| interaction >= 0);
        let group = self.groups.id(Group {
            server: self.servers.value(server as usize).to_string(),
            interaction: names.map(|names| names.value(interaction as usize).to_string()),
        });
        self.known.insert((server, interaction), group);
        Some(group)
    }
}

impl Scratch {
    /// Copy the valid visits. A missing `sent` counts as the arrival, and missing `drops` as none.
    fn fill<'a>(
        &'a mut self,
        mut pairs: Pairs,
        sent: &PrimitiveArray<Int64Type>,
        arrival: &PrimitiveArray<Int64Type>,
        departure: &PrimitiveArray<Int64Type>,
        drops: &PrimitiveArray<UInt8Type>,
    ) -> Result<Rows<'a>> {
        self.keys.clear();
        self.sent.clear();
        self.arrival.clear();
        self.departure.clear();
        self.drops.clear();
        for row in 0..arrival.len() {
            if arrival.is_null(row) || departure.is_null(row) {
                continue;
            }
            let Some(group) = pairs.group(row) else {
                continue;
            };
            let arrived = arrival.value(row);
            self.keys.push(group as i32);
            self.sent.push(if sent.is_null(row) {
                arrived
            } else {
                sent.value(row)
            });
            self.arrival.push(arrived);
            self.departure.push(departure.value(row));
            self.drops.push(if drops.is_null(row) {
                0
            } else {
                drops.value(row)
            });
        }
        let groups = self.keys.iter().max().map_or(0, |&group| group as u32 + 1);
        if self.identity.len() < groups as usize {
            self.identity.extend(self.identity.len() as u32..groups);
        }
        Ok(Rows {
            keys: &self.keys,
            table: &self.identity,
            sent: &self.sent,
            arrival: &self.arrival,
            departure: &self.departure,
            drops: &self.drops,
            left_out: (arrival.len() - self.keys.len()) as u64,
        })
    }
}

/// The file, if it has the columns of a visits table.
fn open(path: &Path, by_interaction: bool) -> Result<Table> {
    let table = Table::open(path)?;
    for (name, kind) in expected(by_interaction) {
        if !table.has(name, &kind)? {
            return Err(wrong(
                &table,
                format!("no column {name}: not a visits table"),
            ));
        }
    }
    Ok(table)
}

fn batches(table: &Table, row_group: usize, by_interaction: bool) -> Result<Batches> {
    let columns = expected(by_interaction);
    let wanted = |name: &str| columns.iter().any(|(column, _)| *column == name);
    table.batches(row_group..row_group + 1, wanted, BATCH_ROWS)
}

fn column<'a>(table: &Table, batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    let column = batch.column_by_name(name);
    column.ok_or_else(|| wrong(table, format!("no column {name}")))
}

fn strings<'a>(table: &Table, values: &'a ArrayRef) -> Result<&'a StringArray> {
    let strings = values.as_string_opt();
    strings.ok_or_else(|| wrong(table, "names are not strings".to_owned()))
}

fn wrong(table: &Table, message: String) -> Error {
    Error::Table {
        path: table.path().to_path_buf(),
        message,
    }
}

/// The columns a reduction reads.
fn expected(by_interaction: bool) -> Vec<(&'static str, DataType)> {
    let mut columns = vec![("server", types::names())];
    columns.extend(TIMES.map(|name| (name, DataType::Int64)));
    columns.push(("drops", DataType::UInt8));
    if by_interaction {
        columns.push(("interaction", types::names()));
    }
    columns
}

/// Run `work` on several threads that take task numbers 0..tasks from a common counter. The first
/// error stops all of them.
pub(crate) fn in_parallel<T: Send>(
    threads: usize,
    tasks: usize,
    work: impl Fn(&dyn Fn() -> Option<usize>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let counter = AtomicUsize::new(0);
    let run = || {
        let next = || Some(counter.fetch_add(1, Ordering::Relaxed)).filter(|&task| task < tasks);
        work(&next).inspect_err(|_| counter.store(tasks, Ordering::Relaxed))
    };
    let threads = threads.clamp(1, tasks.max(1));
    if threads == 1 {
        return Ok(vec![run()?]);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let lost = || Error::Table {
            path: PathBuf::new(),
            message: "a worker thread died".to_string(),
        };
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(lost())))
            .collect()
    })
}
