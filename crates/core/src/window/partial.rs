//! PARTIAL v1: the windows known to one thread, file or machine. These are integer sums, so merging
//! is addition, in any order, with the same bits. A partial crosses processes as an Arrow batch.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::builder::{Decimal128Builder, Int64Builder, StringDictionaryBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use rustc_hash::FxHashMap;

use super::groups::Group;
use super::kernel::KernelSums;
use super::DENSE_ROWS_MAX;
use crate::error::{Error, Result};
use crate::record::encoding::{is_text, plain_text};

/// The version a serialised partial carries in its schema.
const VERSION: (&str, &str) = ("tailrace.partial", "1");
const MOST_DIGITS: u8 = 38;

/// What happened in one window of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub arrivals: i64,
    pub departures: i64,
    /// Of the arrivals: those with `departure - sent` at the threshold or above, and the sum of
    /// their drops.
    pub vlrt: i64,
    pub drops: i64,
    /// Σ over arrivals a of (e − a) − Σ over departures d of (e − d), with e the end of the window.
    pub area_ns: i128,
    /// Σ over departures of (departure − arrival).
    pub response_ns: i128,
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.arrivals += other.arrivals;
        self.departures += other.departures;
        self.vlrt += other.vlrt;
        self.drops += other.drops;
        self.area_ns += other.area_ns;
        self.response_ns += other.response_ns;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub window: i64,
    pub group: u32,
    pub sums: Sums,
}

impl Cell {
    fn key(&self) -> (i64, u32) {
        (self.window, self.group)
    }
}

/// Cells that come mostly forward in time. Late ones are folded in now and then, so that memory
/// depends on distinct cells.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    /// Distinct cells, sorted.
    folded: Vec<Cell>,
    late: Vec<Cell>,
    /// The last fold moved this many folded cells. The next fold waits for as many late ones, so
    /// that all folds together cost no more than a few passes.
    moved: usize,
}

/// With fewer late cells than this, folding does not pay for its sort (5 MB; tests have few).
const FOLD_MIN: usize = if cfg!(test) { 1 << 3 } else { 1 << 16 };
/// A run that would move more cells than this counts as late.
const MOVED_MAX: usize = FOLD_MIN / 4;

impl Cells {
    pub fn push(&mut self, cell: Cell) -> Result<()> {
        self.late.push(cell);
        if self.late.len() >= FOLD_MIN.max(self.moved) {
            self.fold();
        }
        self.check()
    }

    /// Add cells that are sorted.
    pub fn push_run(&mut self, run: impl Iterator<Item = Cell>) -> Result<()> {
        let mut run = run.peekable();
        let ahead = run
            .peek()
            .map_or(0, |first| cells_from(&self.folded, first));
        if ahead > MOVED_MAX {
            return run.try_for_each(|cell| self.push(cell));
        }
        merge(&mut self.folded, run);
        self.check()
    }

    fn fold(&mut self) {
        // The stable sort recognises runs.
        self.late.sort_by_key(Cell::key);
        self.moved = self
            .late
            .first()
            .map_or(0, |first| cells_from(&self.folded, first));
        merge(&mut self.folded, self.late.drain(..));
    }

    fn check(&self) -> Result<()> {
        match self.folded.len() {
            0..=DENSE_ROWS_MAX => Ok(()),
            cells => Err(too_many(cells)),
        }
    }

    pub fn sorted(mut self) -> Vec<Cell> {
        self.fold();
        self.folded
    }
}

/// How many of the sorted cells come after or with this one.
fn cells_from(cells: &[Cell], first: &Cell) -> usize {
    cells.len() - cells.partition_point(|cell| cell.key() < first.key())
}

/// Merge sorted cells into other distinct ones.
fn merge(cells: &mut Vec<Cell>, more: impl Iterator<Item = Cell>) {
    let mut more = more.peekable();
    let Some(first) = more.peek() else {
        return;
    };
    // Cells before all new ones stay in place, unless they are the smaller part.
    let tail = cells_from(cells, first);
    let stay = if tail > cells.len() / 2 {
        0
    } else {
        cells.len() - tail
    };
    let mut tail = cells.split_off(stay).into_iter().peekable();
    cells.reserve(tail.len() + more.size_hint().0);
    for cell in more {
        while let Some(before) = tail.next_if(|old| old.key() <= cell.key()) {
            cells.push(before);
        }
        match cells.last_mut() {
            Some(last) if last.key() == cell.key() => last.sums += cell.sums,
            _ => cells.push(cell),
        }
    }
    cells.extend(tail);
}

pub(crate) fn too_many(rows: usize) -> Error {
    Error::Options(format!(
        "the windows would be {rows} rows, more than {DENSE_ROWS_MAX}: choose a wider window, a begin and an end, or fewer idle windows"
    ))
}

/// Sums of every cell with an event, sorted by (window, group).
#[derive(Clone, Debug, Default)]
pub struct Partial {
    pub groups: Vec<Group>,
    pub cells: Vec<Cell>,
    /// Per group: visits that arrived before the first requested window and departed in it or
    /// later.
    pub opening: Vec<i64>,
    pub rows: u64,
    pub left_out: u64,
}

impl Partial {
    pub(crate) fn of_kernels(groups: Vec<Group>, kernels: Vec<KernelSums>) -> Result<Self> {
        let mut all = Partial {
            opening: vec![0; groups.len()],
            groups,
            ..Partial::default()
        };
        let mut lists = VecDeque::with_capacity(kernels.len());
        for kernel in kernels {
            all.rows += kernel.rows;
            all.left_out += kernel.left_out;
            for (sum, more) in all.opening.iter_mut().zip(&kernel.opening) {
                *sum += more;
            }
            lists.push_back(kernel.cells);
        }
        // In pairs; otherwise each of many threads would move the cells of all previous ones.
        while let Some(mut cells) = lists.pop_front() {
            let Some(more) = lists.pop_front() else {
                all.cells = cells;
                break;
            };
            merge(&mut cells, more.into_iter());
            lists.push_back(cells);
        }
        if all.cells.len() > DENSE_ROWS_MAX {
            return Err(too_many(all.cells.len()));
        }
        Ok(all)
    }

    /// Add another partial of the same plan. Its groups may have other numbers.
    pub fn merge(&mut self, other: &Partial) -> Result<()> {
        let mut ids: FxHashMap<Group, u32> = self.groups.iter().cloned().zip(0..).collect();
        let theirs: Vec<u32> = other
            .groups
            .iter()
            .map(|group| {
                *ids.entry(group.clone()).or_insert_with(|| {
                    self.groups.push(group.clone());
                    self.groups.len() as u32 - 1
                })
            })
            .collect();
        self.opening.resize(self.groups.len(), 0);
        for (count, &id) in other.opening.iter().zip(&theirs) {
            self.opening[id as usize] += count;
        }
        let mut cells = Cells {
            folded: std::mem::take(&mut self.cells),
            ..Cells::default()
        };
        for cell in &other.cells {
            cells.push(Cell {
                group: theirs[cell.group as usize],
                ..*cell
            })?;
        }
        self.cells = cells.sorted();
        self.rows += other.rows;
        self.left_out += other.left_out;
        Ok(())
    }

    /// One row per cell, and one per group with a null window for its `opening` (in the column `arrivals`).
    pub fn to_batch(&self) -> Result<RecordBatch> {
        let mut servers = StringDictionaryBuilder::<Int32Type>::new();
        let mut interactions = StringDictionaryBuilder::<Int32Type>::new();
        let mut windows = Int64Builder::new();
        let mut counts: [Int64Builder; 4] = Default::default();
        let mut sums = [decimals(), decimals()];
        let mut row = |group: u32, window: Option<i64>, s: Sums| {
            let group = &self.groups[group as usize];
            servers.append_value(&group.server);
            interactions.append_option(group.interaction.as_ref());
            windows.append_option(window);
            for (column, value) in
                counts
                    .iter_mut()
                    .zip([s.arrivals, s.departures, s.vlrt, s.drops])
            {
                column.append_value(value);
            }
            for (column, value) in sums.iter_mut().zip([s.area_ns, s.response_ns]) {
                column.append_value(value);
            }
        };
        for (group, &arrivals) in self.opening.iter().enumerate() {
            row(
                group as u32,
                None,
                Sums {
                    arrivals,
                    ..Sums::default()
                },
            );
        }
        for cell in &self.cells {
            row(cell.group, Some(cell.window), cell.sums);
        }
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(servers.finish()),
            Arc::new(interactions.finish()),
            Arc::new(windows.finish()),
        ];
        columns.extend(counts.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        columns.extend(sums.iter_mut().map(|c| Arc::new(c.finish()) as ArrayRef));
        RecordBatch::try_new(Arc::new(self.schema()), columns).map_err(|e| damaged(&e.to_string()))
    }

    fn schema(&self) -> Schema {
        let name = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let sum = DataType::Decimal128(MOST_DIGITS, 0);
        let fields = vec![
            Field::new("server", name.clone(), false),
            Field::new("interaction", name, true),
            Field::new("window", DataType::Int64, true),
            Field::new("arrivals", DataType::Int64, false),
            Field::new("departures", DataType::Int64, false),
            Field::new("vlrt", DataType::Int64, false),
            Field::new("drops", DataType::Int64, false),
            Field::new("area_ns", sum.clone(), false),
            Field::new("response_ns", sum, false),
        ];
        let notes = [
            (VERSION.0, VERSION.1.to_string()),
            ("tailrace.rows", self.rows.to_string()),
            ("tailrace.left_out", self.left_out.to_string()),
        ];
        Schema::new_with_metadata(
            fields,
            notes.into_iter().map(|(k, v)| (k.to_string(), v)).collect(),
        )
    }

    pub fn from_batch(batch: &RecordBatch) -> Result<Self> {
        let schema = batch.schema();
        let note = |key: &str| schema.metadata().get(key).map_or("", String::as_str);
        if note(VERSION.0) != VERSION.1 {
            return Err(damaged(&format!(
                "version {:?}, expected \"{}\"",
                note(VERSION.0),
                VERSION.1
            )));
        }
        let count = |key: &str| note(key).parse().unwrap_or(0);
        Ok(Partial {
            rows: count("tailrace.rows"),
            left_out: count("tailrace.left_out"),
            ..Self::from_columns(batch)?
        })
    }

    /// The same from a batch that another program made: its names may be any text, and nobody
    /// counted its rows.
    pub fn from_columns(batch: &RecordBatch) -> Result<Self> {
        let servers = names(column(batch, "server")?)?;
        let interactions = names(column(batch, "interaction")?)?;
        let windows = typed::<Int64Type>(batch, "window")?;
        let sums = read_sums(batch)?;
        let groups = super::groups::Groups::default();
        let mut cells = Cells::default();
        let mut opening: Vec<i64> = Vec::new();
        for (row, sums) in sums.into_iter().enumerate() {
            let server = servers[row]
                .clone()
                .ok_or_else(|| damaged("a row without a server"))?;
            let group = groups.id(Group {
                server,
                interaction: interactions[row].clone(),
            });
            opening.resize(opening.len().max(group as usize + 1), 0);
            if windows.is_null(row) {
                opening[group as usize] += sums.arrivals;
            } else {
                cells.push(Cell {
                    window: windows.value(row),
                    group,
                    sums,
                })?;
            }
        }
        Ok(Partial {
            groups: groups.list(),
            cells: cells.sorted(),
            opening,
            rows: 0,
            left_out: 0,
        })
    }
}

fn read_sums(batch: &RecordBatch) -> Result<Vec<Sums>> {
    let int = |name: &str| typed::<Int64Type>(batch, name);
    let sum = |name: &str| typed::<Decimal128Type>(batch, name);
    let (arrivals, departures) = (int("arrivals")?, int("departures")?);
    let (vlrt, drops) = (int("vlrt")?, int("drops")?);
    let (area, response) = (sum("area_ns")?, sum("response_ns")?);
    let of_row = |row: usize| Sums {
        arrivals: arrivals.value(row),
        departures: departures.value(row),
        vlrt: vlrt.value(row),
        drops: drops.value(row),
        area_ns: area.value(row),
        response_ns: response.value(row),
    };
    Ok((0..batch.num_rows()).map(of_row).collect())
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch
        .column_by_name(name)
        .ok_or_else(|| damaged(&format!("no column {name}")))
}

fn typed<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<T>> {
    let found = column(batch, name)?;
    found
        .as_primitive_opt()
        .ok_or_else(|| damaged(&format!("column {name} is {}", found.data_type())))
}

fn decimals() -> Decimal128Builder {
    Decimal128Builder::new().with_data_type(DataType::Decimal128(MOST_DIGITS, 0))
}

fn names(column: &ArrayRef) -> Result<Vec<Option<String>>> {
    fn owned<'a>(names: impl Iterator<Item = Option<&'a str>>) -> Vec<Option<String>> {
        names.map(|name| name.map(str::to_string)).collect()
    }
    let dictionary = column
        .as_dictionary_opt::<Int32Type>()
        .and_then(|d| d.downcast_dict::<arrow_array::StringArray>());
    Ok(match (column.data_type(), dictionary) {
        (_, Some(names)) => owned(names.into_iter()),
        (kind, _) if is_text(kind) => owned(plain_text(column).iter()),
        (other, _) => return Err(damaged(&format!("names are {other}, not text"))),
    })
}

fn damaged(message: &str) -> Error {
    Error::Table {
        path: "partial windows".into(),
        message: message.to_string(),
    }
}
