//! visits.parquet files as column slices. Only the columns that count are read, row group by row group, on every core;
//! the statistics in a file's footer say which row groups a span of time can do without.

use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::ProjectionMask;
use parquet::file::statistics::Statistics;

use super::groups::{Group, Groups};
use super::kernel::Rows;
use crate::error::{Error, Result};
use crate::record::shape;

/// Rows per batch: five columns of it (120 kB) stay near the core that decodes them until they are summed.
const BATCH_ROWS: usize = 1 << 12;
const TIMES: [&str; 3] = ["sent", "arrival", "departure"];

#[derive(Debug)]
struct Table {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

/// One row group of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowGroup {
    file: usize,
    row_group: usize,
    /// Least arrival and greatest departure, where the footer tells.
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

/// What one thread keeps from batch to batch.
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
            .map(|path| Table::open(path.clone(), by_interaction))
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
            (0..table.metadata.metadata().num_row_groups()).map(move |row_group| RowGroup {
                file,
                row_group,
                arrival_min: table.statistic(row_group, "arrival", |s| s.0),
                departure_max: table.statistic(row_group, "departure", |s| s.1),
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
        for batch in table.batches(task.row_group, self.by_interaction)? {
            let batch = batch.map_err(|e| table.error(e))?;
            take(self.rows(table, &batch, scratch)?)?;
        }
        Ok(())
    }

    /// Decode every column the reduction reads and do nothing with it: the bound no reduction can beat. For benchmarks.
    pub fn decode_only(&self, threads: usize) -> Result<u64> {
        let tasks = self.row_groups((i64::MIN, i64::MAX));
        let rows = in_parallel(threads, tasks.len(), |next| {
            let mut rows = 0;
            while let Some(task) = next() {
                let table = &self.tables[tasks[task].file];
                for batch in table.batches(tasks[task].row_group, self.by_interaction)? {
                    rows +=
                        std::hint::black_box(batch.map_err(|e| table.error(e))?).num_rows() as u64;
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
        let server: &DictionaryArray<Int32Type> = table.column(batch, "server")?.as_dictionary();
        let [sent, arrival, departure] = TIMES.map(|name| table.times(batch, name));
        let (sent, arrival, departure) = (sent?, arrival?, departure?);
        let drops = table.column(batch, "drops")?.as_primitive::<UInt8Type>();
        let interaction = match self.by_interaction {
            true => Some(
                table
                    .column(batch, "interaction")?
                    .as_dictionary::<Int32Type>(),
            ),
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

    /// Number the servers of a dictionary, once per dictionary.
    fn know_servers(&self, table: &Table, values: &ArrayRef, scratch: &mut Scratch) -> Result<()> {
        let names = table.strings(values)?;
        // Every batch wraps the dictionary of its page anew; the bytes beneath stay where they are.
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

/// Rows whose group has to be looked up one by one.
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
        let servers = table.strings(server.values())?;
        let interactions = interaction
            .map(|column| table.strings(column.values()))
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
    /// Copy the rows that can be visits. A missing `sent` counts as the arrival, missing `drops` as none.
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

impl Table {
    fn open(path: PathBuf, by_interaction: bool) -> Result<Self> {
        let (file, _) = shape::open(&path)?;
        let fail = |message: String| Error::Table {
            path: path.clone(),
            message,
        };
        let plain = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())
            .map_err(|e| fail(e.to_string()))?;
        let schema = dictionaries(plain.schema());
        for (name, kind) in expected(by_interaction) {
            match schema.field_with_name(name) {
                Err(_) => return Err(fail(format!("no column {name}: not a visits table"))),
                Ok(field) if *field.data_type() != kind => {
                    return Err(fail(format!(
                        "column {name} must be {kind}, is {}",
                        field.data_type()
                    )));
                }
                Ok(_) => {}
            }
        }
        let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options)
            .map_err(|e| fail(e.to_string()))?;
        Ok(Table { path, metadata })
    }

    fn batches(
        &self,
        row_group: usize,
        by_interaction: bool,
    ) -> Result<parquet::arrow::arrow_reader::ParquetRecordBatchReader> {
        // Each reader opens the file anew: clones of a handle share their position, and threads would fight over it.
        let file = File::open(&self.path).map_err(|source| Error::Io {
            path: self.path.clone(),
            source,
        })?;
        let names = expected(by_interaction).into_iter().map(|(name, _)| name);
        let mask = ProjectionMask::columns(self.metadata.parquet_schema(), names);
        ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
            .with_projection(mask)
            .with_row_groups(vec![row_group])
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|e| self.error(e))
    }

    fn statistic(
        &self,
        row_group: usize,
        column: &str,
        pick: fn((i64, i64)) -> i64,
    ) -> Option<i64> {
        let columns = self.metadata.metadata().row_group(row_group).columns();
        let chunk = columns
            .iter()
            .find(|chunk| chunk.column_path().string() == column)?;
        match chunk.statistics()? {
            Statistics::Int64(s) => Some(pick((*s.min_opt()?, *s.max_opt()?))),
            _ => None,
        }
    }

    fn column<'a>(&self, batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
        batch
            .column_by_name(name)
            .ok_or_else(|| self.error(format!("no column {name}")))
    }

    fn times<'a>(
        &self,
        batch: &'a RecordBatch,
        name: &str,
    ) -> Result<&'a PrimitiveArray<Int64Type>> {
        Ok(self.column(batch, name)?.as_primitive())
    }

    fn strings<'a>(&self, values: &'a ArrayRef) -> Result<&'a StringArray> {
        values
            .as_string_opt()
            .ok_or_else(|| self.error("names are not strings"))
    }

    fn error(&self, message: impl ToString) -> Error {
        Error::Table {
            path: self.path.clone(),
            message: message.to_string(),
        }
    }
}

fn name_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The columns a reduction reads.
fn expected(by_interaction: bool) -> Vec<(&'static str, DataType)> {
    let mut columns = vec![("server", name_type())];
    columns.extend(TIMES.map(|name| (name, DataType::Int64)));
    columns.push(("drops", DataType::UInt8));
    if by_interaction {
        columns.push(("interaction", name_type()));
    }
    columns
}

/// The schema with names as dictionaries, whatever kind of string the writer of the file noted.
fn dictionaries(schema: &Schema) -> Schema {
    let text = |kind: &DataType| {
        matches!(
            kind,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    let fields = schema.fields().iter().map(|field| {
        let is_name = match field.data_type() {
            DataType::Dictionary(_, value) => text(value),
            kind => text(kind),
        };
        match is_name && (field.name() == "server" || field.name() == "interaction") {
            true => Arc::new(Field::new(field.name(), name_type(), field.is_nullable())),
            false => Arc::clone(field),
        }
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Run `work` on several threads that take task numbers 0..tasks from a common counter. The first error stops the rest.
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
