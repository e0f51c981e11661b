//! A table's file, row group by row group, in bounded memory.

use super::chunk::Chunk;
use super::columns::{Column, Columns};
use super::encoding::{properties, PAGE_ROWS, ROW_GROUP_ROWS, ZSTD_LEVEL};
use super::library::Library;
use super::types::parquet_schema;
use super::writer::Row;
use super::{arrow_note, Names};
use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, SchemaRef};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnDescPtr;
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use zstd::bulk::Compressor;

/// Rows that become columns at a time: few enough to stay in the processor's first cache for all
/// columns.
const BLOCK_ROWS: usize = 128;
/// Bytes that go to the disk at a time; the library writes 8 KiB.
const WRITTEN_BYTES: usize = 1 << 18;

pub struct TableFile {
    schema: SchemaRef,
    file: SerializedFileWriter<BufWriter<File>>,
    zstd: Compressor<'static>,
    /// The current row group: its columns (none before its first row), and its rows.
    columns: Vec<Column>,
    rows: usize,
    /// Memory of the previous row group's chunks.
    memory: Vec<Vec<u8>>,
}

impl TableFile {
    pub fn new(file: File, schema: SchemaRef) -> Result<Self> {
        let file = BufWriter::with_capacity(WRITTEN_BYTES, file);
        let columns = parquet_schema(&schema)?;
        let mut file = SerializedFileWriter::new(file, columns, Arc::new(properties()?))?;
        let note = KeyValue::new(arrow_note::KEY.to_owned(), arrow_note::of(&schema));
        file.append_key_value_metadata(note);
        Ok(TableFile {
            schema,
            file,
            zstd: Compressor::new(ZSTD_LEVEL)?,
            columns: Vec::new(),
            rows: 0,
            memory: Vec::new(),
        })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut begin = 0;
        while begin < batch.num_rows() {
            let rows = (batch.num_rows() - begin).min(self.rows_to_page_end());
            let mut columns = Columns::of(self.columns()?);
            for array in batch.slice(begin, rows).columns() {
                columns.array(array.clone())?;
            }
            columns.finish()?;
            self.have_come(rows)?;
            begin += rows;
        }
        Ok(())
    }

    /// The same for Tailrace's own rows.
    pub fn put<R: Row>(&mut self, mut rows: &[R], names: &Names) -> Result<()> {
        while !rows.is_empty() {
            let count = rows.len().min(BLOCK_ROWS).min(self.rows_to_page_end());
            let (block, others) = rows.split_at(count);
            let mut columns = Columns::of(self.columns()?);
            R::put(block, names, &mut columns)?;
            columns.finish()?;
            self.have_come(count)?;
            rows = others;
        }
        Ok(())
    }

    fn rows_to_page_end(&self) -> usize {
        PAGE_ROWS - self.rows % PAGE_ROWS
    }

    /// The current row group, or a new one.
    fn columns(&mut self) -> Result<&mut [Column]> {
        if self.columns.is_empty() {
            self.columns = self.begin_group();
        }
        Ok(&mut self.columns)
    }

    /// All columns have this many more rows.
    fn have_come(&mut self, rows: usize) -> Result<()> {
        self.rows += rows;
        if self.rows % PAGE_ROWS == 0 {
            for column in &mut self.columns {
                match column {
                    Column::Ours(chunk) => chunk.end_page(&mut self.zstd)?,
                    Column::Library(column) => column.end_page()?,
                }
            }
        }
        if self.rows >= ROW_GROUP_ROWS {
            self.end_group()?;
        }
        Ok(())
    }

    fn begin_group(&mut self) -> Vec<Column> {
        let in_file = self.file.schema_descr().columns();
        let mut memory = self.memory.drain(..);
        let column = |(field, column): (&FieldRef, &ColumnDescPtr)| {
            let (column, kind) = (column.clone(), field.data_type());
            if Chunk::makes(kind) {
                let memory = memory.next().unwrap_or_default();
                Column::Ours(Box::new(Chunk::new(column, kind, memory)))
            } else {
                let properties = self.file.properties().clone();
                Column::Library(Box::new(Library::new(column, kind, properties)))
            }
        };
        self.schema
            .fields()
            .iter()
            .zip(in_file)
            .map(column)
            .collect()
    }

    pub(crate) fn end_group(&mut self) -> Result<()> {
        self.rows = 0;
        let mut group = self.file.next_row_group()?;
        for column in self.columns.drain(..) {
            match column {
                Column::Ours(chunk) => {
                    let memory = chunk.append_to(&mut group, &mut self.zstd)?;
                    self.memory.push(memory);
                }
                Column::Library(column) => {
                    let (pages, close) = column.close()?;
                    group.append_column(&pages, close)?;
                }
            }
        }
        group.close()?;
        Ok(())
    }

    pub fn close(mut self) -> Result<()> {
        if self.rows > 0 {
            self.end_group()?;
        }
        self.file.close()?;
        Ok(())
    }
}
