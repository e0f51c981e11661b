//! The tables of a run folder, a batch at a time.

use std::collections::VecDeque;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt64Type, UInt8Type};
use arrow_array::{Array, Int32Array, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::DataType;

use super::names::Names;
use crate::error::{Error, Result};
use crate::record::read::{Batches, Table};
use crate::record::{types, NO_NAME};

const BATCH_ROWS: usize = 1 << 13;

/// Appends the valid rows of a batch.
pub type Read<T> = fn(&Batch<'_>, &mut Names, &mut Vec<T>) -> Result<()>;

/// A table, row by row.
pub struct Rows<T> {
    table: Table,
    batches: Batches,
    read: Read<T>,
    held: VecDeque<T>,
    /// Rows in the file.
    pub total: u64,
}

impl<T> Rows<T> {
    pub fn open(path: &Path, read: Read<T>) -> Result<Self> {
        let table = Table::open(path)?;
        Ok(Rows {
            total: table.rows(),
            batches: table.all(BATCH_ROWS)?,
            table,
            read,
            held: VecDeque::new(),
        })
    }

    /// None if there is no such table.
    pub fn open_if_there(path: &Path, read: Read<T>) -> Result<Option<Self>> {
        path.exists().then(|| Rows::open(path, read)).transpose()
    }

    pub fn peek(&mut self, names: &mut Names) -> Result<Option<&T>> {
        while self.held.is_empty() {
            let Some(batch) = self.batches.next() else {
                return Ok(None);
            };
            let batch = Batch {
                batch: &batch?,
                table: &self.table,
            };
            let mut rows = Vec::with_capacity(batch.len());
            (self.read)(&batch, names, &mut rows)?;
            self.held.extend(rows);
        }
        Ok(self.held.front())
    }

    pub fn next(&mut self, names: &mut Names) -> Result<Option<T>> {
        self.peek(names)?;
        Ok(self.held.pop_front())
    }
}

pub struct Batch<'a> {
    batch: &'a RecordBatch,
    table: &'a Table,
}

/// A column of numbers; if it is missing, every value is unknown.
pub struct Column<P: ArrowPrimitiveType>(Option<PrimitiveArray<P>>);

impl<P: ArrowPrimitiveType> Column<P> {
    pub fn get(&self, row: usize) -> Option<P::Native> {
        let column = self.0.as_ref()?;
        column.is_valid(row).then(|| column.value(row))
    }
}

/// A column of names, by their numbers.
pub struct NameColumn {
    keys: Option<Int32Array>,
    ids: Vec<u32>,
}

impl NameColumn {
    /// NO_NAME if unknown.
    pub fn get(&self, row: usize) -> u32 {
        let key = self
            .keys
            .as_ref()
            .filter(|keys| keys.is_valid(row))
            .map(|keys| keys.value(row));
        let id = key.and_then(|key| self.ids.get(usize::try_from(key).ok()?));
        id.copied().unwrap_or(NO_NAME)
    }
}

/// A column of text.
pub struct Texts {
    keys: Int32Array,
    values: StringArray,
}

impl Texts {
    /// Empty if unknown.
    pub fn get(&self, row: usize) -> &str {
        if !self.keys.is_valid(row) {
            return "";
        }
        let key = usize::try_from(self.keys.value(row)).unwrap_or(usize::MAX);
        if key < self.values.len() && self.values.is_valid(key) {
            self.values.value(key)
        } else {
            ""
        }
    }
}

impl Batch<'_> {
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    pub fn times(&self, name: &str, required: bool) -> Result<Column<Int64Type>> {
        self.numbers(name, required)
    }

    pub fn ids(&self, name: &str, required: bool) -> Result<Column<UInt64Type>> {
        self.numbers(name, required)
    }

    pub fn small(&self, name: &str) -> Result<Column<UInt8Type>> {
        self.numbers(name, true)
    }

    pub fn numbers<P: ArrowPrimitiveType>(&self, name: &str, required: bool) -> Result<Column<P>> {
        if self.lacks(name, &P::DATA_TYPE, required)? {
            return Ok(Column(None));
        }
        let column = self.batch.column_by_name(name);
        Ok(Column(
            column.and_then(|column| column.as_primitive_opt().cloned()),
        ))
    }

    /// Whether the column is missing, which is an error if it is required; a column of another type
    /// always is one.
    fn lacks(&self, name: &str, kind: &DataType, required: bool) -> Result<bool> {
        let column = self.batch.column_by_name(name);
        let is_null = column.is_some_and(|column| *column.data_type() == DataType::Null);
        if is_null && !required {
            return Ok(true);
        }
        match self.table.has(name, kind)? {
            false if required => Err(Error::Table {
                path: self.table.path().to_path_buf(),
                message: format!("no column {name}"),
            }),
            has => Ok(!has),
        }
    }

    pub fn names(&self, name: &str, required: bool, names: &mut Names) -> Result<NameColumn> {
        if self.lacks(name, &types::names(), required)? {
            return Ok(NameColumn {
                keys: None,
                ids: Vec::new(),
            });
        }
        let Texts { keys, values } = self.texts(name)?;
        let ids = values
            .iter()
            .map(|text| text.map_or(NO_NAME, |text| names.id(text)))
            .collect();
        Ok(NameColumn {
            keys: Some(keys),
            ids,
        })
    }

    pub fn texts(&self, name: &str) -> Result<Texts> {
        self.lacks(name, &types::names(), true)?;
        let column = self.batch.column_by_name(name);
        let names = column.and_then(|column| column.as_dictionary_opt::<Int32Type>());
        let texts = names.and_then(|names| {
            Some(Texts {
                keys: names.keys().clone(),
                values: names.values().as_string_opt::<i32>()?.clone(),
            })
        });
        texts.ok_or_else(|| Error::Table {
            path: self.table.path().to_path_buf(),
            message: format!("no column {name}"),
        })
    }
}
