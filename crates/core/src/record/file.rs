//! A table's file, row group by row group, in bounded memory.

use super::chunk::Chunk;
use super::encoding::{properties, PAGE_ROWS, ROW_GROUP_ROWS, ZSTD_LEVEL};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::{compute_leaves, ArrowColumnWriter, ArrowRowGroupWriterFactory};
use parquet::arrow::ArrowWriter;
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use zstd::bulk::Compressor;

pub struct TableFile {
    schema: SchemaRef,
    file: SerializedFileWriter<File>,
    library: ArrowRowGroupWriterFactory,
    zstd: Compressor<'static>,
    /// Of the row group under way: its columns, none before its first row, and its rows.
    columns: Vec<Column>,
    rows: usize,
}

enum Column {
    Ours(Box<Chunk>),
    /// Of each leaf, for a column may have fields of its own.
    Library(Vec<ArrowColumnWriter>),
}

impl TableFile {
    pub fn new(file: File, schema: SchemaRef) -> Result<Self> {
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties()?))?;
        let (file, library) = writer.into_serialized_writer()?;
        Ok(TableFile {
            schema,
            file,
            library,
            zstd: Compressor::new(ZSTD_LEVEL)?,
            columns: Vec::new(),
            rows: 0,
        })
    }

    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut begin = 0;
        while begin < batch.num_rows() {
            let rows = (batch.num_rows() - begin).min(PAGE_ROWS - self.rows % PAGE_ROWS);
            self.write_to_page(&batch.slice(begin, rows))?;
            begin += rows;
        }
        Ok(())
    }

    fn write_to_page(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.columns.is_empty() {
            self.columns = self.begin_group()?;
        }
        self.rows += batch.num_rows();
        let ends_page = self.rows % PAGE_ROWS == 0;
        let fields = self.schema.fields().iter().zip(batch.columns());
        for ((field, array), column) in fields.zip(&mut self.columns) {
            match column {
                Column::Library(writers) => {
                    for (leaf, writer) in compute_leaves(field, array)?.iter().zip(writers) {
                        writer.write(leaf)?;
                    }
                }
                Column::Ours(chunk) => {
                    chunk.push(array)?;
                    if ends_page {
                        chunk.end_page(&mut self.zstd)?;
                    }
                }
            }
        }
        if self.rows >= ROW_GROUP_ROWS {
            self.end_group()?;
        }
        Ok(())
    }

    fn begin_group(&self) -> Result<Vec<Column>> {
        let number = self.file.flushed_row_groups().len();
        let mut writers = self.library.create_column_writers(number)?.into_iter();
        let (leaves, mut first) = (self.file.schema_descr(), 0);
        let mut columns = Vec::new();
        for (root, field) in self.schema.fields().iter().enumerate() {
            let own = |&leaf: &usize| leaves.get_column_root_idx(leaf) == root;
            let count = (first..leaves.num_columns()).take_while(own).count();
            let library = writers.by_ref().take(count).collect();
            let ours = Chunk::new(leaves.column(first), field.data_type());
            columns.push(match ours {
                Some(chunk) => Column::Ours(Box::new(chunk)),
                None => Column::Library(library),
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
                Column::Ours(chunk) => chunk.append_to(&mut group, &mut self.zstd)?,
                Column::Library(writers) => {
                    for writer in writers {
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
