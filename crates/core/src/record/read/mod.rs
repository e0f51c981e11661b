//! Parquet files as batches of rows.
//! ```text
//! file ─▶ pages ─▶ checked ─▶ numbers ─────────────────────────────▶ a column of a batch
//!                         └─▶ of text: the same by numbers of names ─▶ a dictionary
//! ```
//!
//! The library decodes pages. Damage that it cannot handle is refused before by [`shape`] and
//! [`pages`], as far as the headers of pages show it; if it panics on a page all the same, the table
//! is damaged.

mod column;
mod names;
mod pages;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;

use self::column::ColumnReader;
use super::encoding::table_error;
use super::{shape, types};
use crate::error::{Error, Result};

/// A file whose footer has been read.
#[derive(Clone, Debug)]
pub struct Table {
    path: PathBuf,
    metadata: Arc<ParquetMetaData>,
    /// The readable columns, and the position of each among all.
    schema: SchemaRef,
    places: Vec<usize>,
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|source| Error::Io {
        path: path.to_path_buf(),
        source,
    })
}

impl Table {
    pub fn open(path: &Path) -> Result<Self> {
        let (file, _) = shape::open(path)?;
        let metadata = ParquetMetaDataReader::new()
            .parse_and_finish(&file)
            .map_err(|error| table_error(path, error))?;
        let (mut fields, mut places) = (Vec::new(), Vec::new());
        let columns = metadata.file_metadata().schema_descr().columns();
        for (place, column) in columns.iter().enumerate() {
            if let Some(kind) = types::arrow_type(column) {
                fields.push(Field::new(column.name(), kind, column.max_def_level() > 0));
                places.push(place);
            }
        }
        Ok(Table {
            path: path.to_path_buf(),
            metadata: Arc::new(metadata),
            schema: Arc::new(Schema::new(fields)),
            places,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Rows in the file, as its end states.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.metadata.file_metadata().num_rows()).unwrap_or(0)
    }

    pub fn row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Whether a column of this name has this type; an error says what it has instead. False if
    /// there is no such column.
    pub fn has(&self, name: &str, kind: &DataType) -> Result<bool> {
        let found = match self.schema.field_with_name(name) {
            Ok(field) if field.data_type() == kind => return Ok(true),
            Ok(field) => field.data_type().to_string(),
            Err(_) => {
                let columns = self.metadata.file_metadata().schema_descr().columns();
                let other = columns
                    .iter()
                    .find(|column| column.path().parts()[0] == name);
                let Some(other) = other else {
                    return Ok(false);
                };
                types::described(other)
            }
        };
        Err(table_error(
            &self.path,
            format!("column {name} must be {kind}, is {found}"),
        ))
    }

    /// The least and the greatest value of a column of moments in a row group, if the footer has
    /// them.
    pub fn range(&self, row_group: usize, column: &str) -> Option<(i64, i64)> {
        let columns = self.metadata.row_group(row_group).columns();
        let chunk = columns
            .iter()
            .find(|chunk| chunk.column_path().string() == column)?;
        match chunk.statistics()? {
            Statistics::Int64(values) => Some((*values.min_opt()?, *values.max_opt()?)),
            _ => None,
        }
    }

    /// All readable columns, of all rows.
    pub fn all(&self, batch_rows: usize) -> Result<Batches> {
        self.batches(0..self.row_groups(), |_| true, batch_rows)
    }

    /// The wanted columns, `batch_rows` rows at a time, or fewer at the end of a row group.
    pub fn batches(
        &self,
        row_groups: Range<usize>,
        wanted: impl Fn(&str) -> bool,
        batch_rows: usize,
    ) -> Result<Batches> {
        let (mut fields, mut places) = (Vec::new(), Vec::new());
        for (field, &place) in self.schema.fields().iter().zip(&self.places) {
            if wanted(field.name()) {
                fields.push(field.clone());
                places.push(place);
            }
        }
        Ok(Batches {
            // Every reader opens the file again: clones of a handle share their position, and
            // threads would interfere.
            file: Arc::new(open(&self.path)?),
            path: self.path.clone(),
            metadata: self.metadata.clone(),
            row_groups,
            schema: Arc::new(Schema::new(fields)),
            places,
            batch_rows,
            columns: Vec::new(),
            rows: 0,
        })
    }
}

/// After an error, nothing more comes.
pub struct Batches {
    path: PathBuf,
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    /// Row groups that are not started.
    row_groups: Range<usize>,
    schema: SchemaRef,
    places: Vec<usize>,
    batch_rows: usize,
    /// The current row group: its columns, and its remaining rows.
    columns: Vec<ColumnReader>,
    rows: usize,
}

impl Batches {
    fn begin(&mut self, row_group: usize) -> parquet::errors::Result<()> {
        let group = self.metadata.row_group(row_group);
        self.rows = usize::try_from(group.num_rows()).unwrap_or(0);
        self.columns.clear();
        for (field, &place) in self.schema.fields().iter().zip(&self.places) {
            let chunk = group.column(place);
            let pages = SerializedPageReader::new(self.file.clone(), chunk, self.rows, None)?;
            let column = chunk.column_descr_ptr();
            self.columns.push(ColumnReader::new(
                column,
                field.data_type(),
                Box::new(pages),
            )?);
        }
        Ok(())
    }

    fn read(&mut self) -> parquet::errors::Result<Option<RecordBatch>> {
        while self.rows == 0 {
            let Some(row_group) = self.row_groups.next() else {
                return Ok(None);
            };
            self.begin(row_group)?;
        }
        let rows = self.rows.min(self.batch_rows);
        self.rows -= rows;
        let columns = self.columns.iter_mut().map(|column| column.read(rows));
        let columns = columns.collect::<parquet::errors::Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options);
        Ok(Some(batch.map_err(|error| {
            parquet::errors::ParquetError::General(error.to_string())
        })?))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = panic::catch_unwind(AssertUnwindSafe(|| self.read()));
        let read = read.unwrap_or_else(|_| Err(pages::damaged("a page contradicts itself")));
        let batch = read.map_err(|error| {
            (self.rows, self.row_groups) = (0, 0..0);
            table_error(&self.path, error)
        });
        batch.transpose()
    }
}
