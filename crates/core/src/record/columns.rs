//! Rows become columns, one after the other: the next column takes its values from some rows.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::net::IpAddr;

use super::chunk::Chunk;
use super::library::Library;
use super::{Names, CALLER_IS_SERVER, NO_ID, NO_TIME};
use arrow_array::ArrayRef;
use parquet::errors::{ParquetError, Result};
use rustc_hash::FxHashSet;

/// A column of the current row group.
pub enum Column {
    Ours(Box<Chunk>),
    Library(Box<Library>),
}

/// Columns that have no values yet. Every method fails if there is no next column, or if its kind
/// does not match (numbers or names).
pub struct Columns<'t>(std::slice::IterMut<'t, Column>);

impl<'t> Columns<'t> {
    pub fn of(columns: &'t mut [Column]) -> Self {
        Columns(columns.iter_mut())
    }

    fn next(&mut self) -> Result<&'t mut Column> {
        let none = || ParquetError::General("a row has more values than columns".to_owned());
        self.0.next().ok_or_else(none)
    }

    fn chunk(&mut self) -> Result<&'t mut Chunk> {
        match self.next()? {
            Column::Ours(chunk) => Ok(chunk),
            Column::Library(column) => Err(ParquetError::General(format!(
                "column {} holds {}, got numbers or names",
                column.name(),
                column.kind()
            ))),
        }
    }

    /// Moments or durations, ns; [`NO_TIME`] means none.
    pub fn times(&mut self, values: impl Iterator<Item = i64>) -> Result<()> {
        self.chunk()?.push_numbers(values, Some(NO_TIME))
    }

    /// [`NO_ID`] means none.
    pub fn ids(&mut self, values: impl Iterator<Item = u64>) -> Result<()> {
        let values = values.map(|value| value as i64);
        self.chunk()?.push_numbers(values, Some(NO_ID as i64))
    }

    pub fn counts(&mut self, values: impl Iterator<Item = u64>) -> Result<()> {
        let values = values.map(|value| value as i64);
        self.chunk()?.push_numbers(values, None)
    }

    pub fn numbers(&mut self, values: impl Iterator<Item = impl Into<i64>>) -> Result<()> {
        self.chunk()?.push_numbers(values.map(Into::into), None)
    }

    /// Indices into `names`, whose names keep their index; [`super::NO_NAME`] means none.
    pub fn named(&mut self, names: &[String], indices: impl Iterator<Item = u32>) -> Result<()> {
        let name_of = |index: u32| names.get(index as usize).map(Cow::from);
        self.chunk()?.push_names(indices, name_of)
    }

    /// Callers are hosts, or servers where the call graph knows better. The address of a host that serves nothing may be
    /// that of a person: it is called `client-N`.
    pub fn callers(&mut self, names: &Names, callers: impl Iterator<Item = u32>) -> Result<()> {
        const { assert!(CALLER_IS_SERVER.rotate_left(1) == 1) };
        // Asked only for a number that the dictionary does not have yet.
        let serving = LazyCell::new(|| {
            names
                .server_hosts
                .iter()
                .copied()
                .collect::<FxHashSet<u32>>()
        });
        let host = |number: usize| {
            let name = names.hosts.get(number)?;
            let host = number as u32;
            let serves = || serving.contains(&host) || name.parse::<IpAddr>().is_err();
            match names.by_address(host, serves) {
                true => Some(Cow::from(name)),
                false => Some(Cow::from(format!("client-{}", number + 1))),
            }
        };
        let name_of = |number: u32| match number & 1 {
            0 => host(number as usize / 2),
            _ => names.servers.get(number as usize / 2).map(Cow::from),
        };
        // The bit of a server goes last, which keeps numbers small.
        let numbers = callers.map(|caller| caller.rotate_left(1));
        self.chunk()?.push_names(numbers, name_of)
    }

    pub fn texts<'n>(&mut self, values: impl Iterator<Item = &'n str>) -> Result<()> {
        self.chunk()?.push_texts(values)
    }

    pub fn array(&mut self, array: ArrayRef) -> Result<()> {
        match self.next()? {
            Column::Ours(chunk) => chunk.push(&array),
            Column::Library(column) => column.push(&array),
        }
    }

    /// A row needs a value in each.
    pub fn finish(mut self) -> Result<()> {
        match self.0.next() {
            None => Ok(()),
            Some(_) => Err(ParquetError::General(
                "a row has fewer values than columns".to_owned(),
            )),
        }
    }
}
