//! The tables of a run folder, a batch at a time.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type, UInt64Type, UInt8Type};
use arrow_array::{Array, Int32Array, PrimitiveArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};

use super::names::Names;
use crate::error::{Error, Result};
use crate::record::{shape, NO_NAME};

const BATCH_ROWS: usize = 1 << 13;

/// Appends the rows of a batch that make sense.
pub type Read<T> = fn(&Batch<'_>, &mut Names, &mut Vec<T>) -> Result<()>;

/// A table, row by row.
pub struct Rows<T> {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    read: Read<T>,
    held: VecDeque<T>,
    /// Rows in the file.
    pub total: u64,
}

impl<T> Rows<T> {
    pub fn open(path: &Path, read: Read<T>) -> Result<Self> {
        let (file, shape) = shape::open(path)?;
        let wrong = |e: parquet::errors::ParquetError| table_error(path, e.to_string());
        let plain = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(wrong)?;
        let options = ArrowReaderOptions::new().with_schema(Arc::new(dictionaries(plain.schema())));
        let metadata =
            ArrowReaderMetadata::try_new(Arc::clone(plain.metadata()), options).map_err(wrong)?;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(wrong)?;
        Ok(Rows {
            path: path.to_path_buf(),
            reader,
            read,
            held: VecDeque::new(),
            total: shape.rows,
        })
    }

    /// None where there is no such table.
    pub fn open_if_there(path: &Path, read: Read<T>) -> Result<Option<Self>> {
        path.exists().then(|| Rows::open(path, read)).transpose()
    }

    pub fn peek(&mut self, names: &mut Names) -> Result<Option<&T>> {
        while self.held.is_empty() {
            let Some(batch) = self.reader.next() else {
                return Ok(None);
            };
            let batch = batch.map_err(|e| table_error(&self.path, e.to_string()))?;
            let batch = Batch {
                batch: &batch,
                path: &self.path,
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

fn table_error(path: &Path, message: String) -> Error {
    Error::Table {
        path: path.to_path_buf(),
        message,
    }
}

/// The schema with text as dictionaries, whatever kind of text the writer of the file noted.
fn dictionaries(schema: &Schema) -> Schema {
    let text = |kind: &DataType| {
        matches!(
            kind,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let fields = schema.fields().iter().map(|field| {
        let is_text = match field.data_type() {
            DataType::Dictionary(_, value) => text(value),
            kind => text(kind),
        };
        match is_text {
            true => Arc::new(Field::new(field.name(), kind.clone(), field.is_nullable())),
            false => Arc::clone(field),
        }
    });
    Schema::new(fields.collect::<Vec<_>>())
}

pub struct Batch<'a> {
    batch: &'a RecordBatch,
    path: &'a Path,
}

/// A column of numbers; every value of one that is not there is unknown.
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
    /// NO_NAME where it is unknown.
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
    /// Empty where it is unknown.
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
        let Some(column) = self.batch.column_by_name(name) else {
            return match required {
                true => Err(self.wrong(format!("no column {name}"))),
                false => Ok(Column(None)),
            };
        };
        match column.as_primitive_opt::<P>() {
            Some(column) => Ok(Column(Some(column.clone()))),
            None if *column.data_type() == DataType::Null && !required => Ok(Column(None)),
            None => Err(self.wrong(format!(
                "column {name} must be {}, is {}",
                P::DATA_TYPE,
                column.data_type()
            ))),
        }
    }

    pub fn names(&self, name: &str, required: bool, names: &mut Names) -> Result<NameColumn> {
        let missing = |batch: &RecordBatch| {
            let column = batch.column_by_name(name);
            column.is_none_or(|column| *column.data_type() == DataType::Null)
        };
        if !required && missing(self.batch) {
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
        let column = self
            .batch
            .column_by_name(name)
            .ok_or_else(|| self.wrong(format!("no column {name}")))?;
        let dictionary = column.as_dictionary_opt::<Int32Type>();
        let values = dictionary.and_then(|d| Some((d, d.values().as_string_opt::<i32>()?)));
        match values {
            Some((dictionary, values)) => Ok(Texts {
                keys: dictionary.keys().clone(),
                values: values.clone(),
            }),
            None => Err(self.wrong(format!(
                "column {name} must hold names, is {}",
                column.data_type()
            ))),
        }
    }

    fn wrong(&self, message: String) -> Error {
        table_error(self.path, message)
    }
}
