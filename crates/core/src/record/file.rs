//! A table's file, row group by row group, in bounded memory.

use super::chunk::Chunk;
use super::columns::{Column, Columns, Others};
use super::encoding::{properties, PAGE_ROWS, ROW_GROUP_ROWS, ZSTD_LEVEL};
use super::writer::Row;
use super::Names;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::arrow::ArrowWriter;
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::io::BufWriter;
use zstd::bulk::Compressor;

/// Rows that become columns at a time: few enough to stay in the processor's first cache for all columns.
const BLOCK_ROWS: usize = 128;
/// Bytes that go to the disk at a time; the library writes 8 KiB.
const WRITTEN_BYTES: usize = 1 << 18;

pub struct TableFile {
    schema: SchemaRef,
    file: SerializedFileWriter<BufWriter<File>>,
    library: ArrowRowGroupWriterFactory,
    zstd: Compressor<'static>,
    /// Of the row group under way: its columns, none before its first row, and its rows.
    columns: Vec<Column>,
    rows: usize,
    /// What chunks of the row group before took.
    memory: Vec<Vec<u8>>,
}

impl TableFile {
    pub fn new(file: File, schema: SchemaRef) -> Result<Self> {
        let file = BufWriter::with_capacity(WRITTEN_BYTES, file);
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties()?))?;
        let (file, library) = writer.into_serialized_writer()?;
        Ok(TableFile {
            schema,
            file,
            library,
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

    /// The same of rows of ours.
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

    /// Of the row group under way, or a new one.
    fn columns(&mut self) -> Result<&mut [Column]> {
        if self.columns.is_empty() {
            self.columns = self.begin_group()?;
        }
        Ok(&mut self.columns)
    }

    /// All columns have so many rows more.
    fn have_come(&mut self, rows: usize) -> Result<()> {
        self.rows += rows;
        if self.rows % PAGE_ROWS == 0 {
            for column in &mut self.columns {
                match column {
                    Column::Ours(chunk) => chunk.end_page(&mut self.zstd)?,
                    Column::Library(others) => others.end_page()?,
                }
            }
        }
        if self.rows >= ROW_GROUP_ROWS {
            self.end_group()?;
        }
        Ok(())
    }

    fn begin_group(&mut self) -> Result<Vec<Column>> {
        let number = self.file.flushed_row_groups().len();
        let mut writers = self.library.create_column_writers(number)?.into_iter();
        let (leaves, mut first) = (self.file.schema_descr(), 0);
        let mut memory = self.memory.drain(..);
        let mut columns = Vec::new();
        for (root, field) in self.schema.fields().iter().enumerate() {
            let own = |&leaf: &usize| leaves.get_column_root_idx(leaf) == root;
            let count = (first..leaves.num_columns()).take_while(own).count();
            let library = writers.by_ref().take(count).collect();
            columns.push(if Chunk::makes(field.data_type()) {
                let memory = memory.next().unwrap_or_default();
                let chunk = Chunk::new(leaves.column(first), field.data_type(), memory);
                Column::Ours(Box::new(chunk))
            } else {
                Column::Library(Others {
                    field: field.clone(),
                    writers: library,
                    pending: Vec::new(),
                })
            });
            first += count;
        }
        Ok(columns)
    }

    fn end_group(&mut self) -> Result<()> {
        self.rows = 0;
        let mut group = self.file.next_row_group()?;
        for column in self.columns.drain(..) {
            match column {
                Column::Ours(chunk) => {
                    let memory = chunk.append_to(&mut group, &mut self.zstd)?;
                    self.memory.push(memory);
                }
                Column::Library(mut others) => {
                    others.end_page()?;
                    for writer in others.writers {
                        writer.close()?.append_to_row_group(&mut group)?;
                    }
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
