//! Columns that the library writes: floats, truth values and text. They are few, or few rows have
//! them.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type};
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::column::writer::{get_column_writer, ColumnCloseResult, ColumnWriter};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

/// Appends a page; returns where it begins, and its sizes.
pub fn append_page(bytes: &mut Vec<u8>, page: CompressedPage) -> Result<PageWriteSpec> {
    let begin = bytes.len() as u64;
    let mut written = TrackedWrite::new(bytes);
    let mut spec = SerializedPageWriter::new(&mut written).write_page(page)?;
    written.into_inner()?;
    spec.offset = begin;
    Ok(spec)
}

/// The pages of one column of a row group, until the row group is written.
#[derive(Clone, Default)]
struct Pages(Arc<Mutex<Vec<u8>>>);

impl PageWriter for Pages {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        append_page(
            &mut self.0.lock().unwrap_or_else(PoisonError::into_inner),
            page,
        )
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The library receives all rows of a page at once, because it ends pages according to how much it
/// receives each time.
pub struct Library {
    column: ColumnDescPtr,
    kind: DataType,
    pages: Pages,
    writer: ColumnWriter<'static>,
    pending: Pending,
    /// 1 for a row with a value, 0 for others; only for a column with nulls.
    levels: Vec<i16>,
}

/// Values of the current page.
#[derive(Default)]
struct Pending {
    doubles: Vec<f64>,
    floats: Vec<f32>,
    truths: Vec<bool>,
    texts: Vec<ByteArray>,
}

impl Library {
    pub fn new(column: ColumnDescPtr, kind: &DataType, properties: WriterPropertiesPtr) -> Self {
        let pages = Pages::default();
        let writer = get_column_writer(column.clone(), properties, Box::new(pages.clone()));
        Library {
            column,
            kind: kind.clone(),
            pages,
            writer,
            pending: Pending::default(),
            levels: Vec::new(),
        }
    }

    pub fn name(&self) -> &str {
        self.column.name()
    }

    pub fn kind(&self) -> &DataType {
        &self.kind
    }

    /// More rows of the current page. Text may come as names.
    pub fn push(&mut self, array: &ArrayRef) -> Result<()> {
        let wrong = |found| wrong_type(&self.column, &self.kind, found);
        let pending = &mut self.pending;
        match (&self.kind, array.data_type()) {
            (DataType::Float64, DataType::Float64) => {
                let values = array.as_primitive::<Float64Type>();
                pending.doubles.extend(values.iter().flatten());
            }
            (DataType::Float32, DataType::Float32) => {
                let values = array.as_primitive::<Float32Type>();
                pending.floats.extend(values.iter().flatten());
            }
            (DataType::Boolean, DataType::Boolean) => {
                pending.truths.extend(array.as_boolean().iter().flatten());
            }
            (DataType::Utf8, DataType::Utf8) => {
                let texts = array.as_string::<i32>().iter().flatten();
                pending.texts.extend(texts.map(ByteArray::from));
            }
            (DataType::Utf8, found) => {
                let names = array.as_dictionary_opt::<Int32Type>();
                let names = names.and_then(|names| names.downcast_dict::<StringArray>());
                let texts = names.ok_or_else(|| wrong(found))?.into_iter().flatten();
                pending.texts.extend(texts.map(ByteArray::from));
            }
            (_, found) => return Err(wrong(found)),
        }
        if self.column.max_def_level() > 0 {
            let there = |row: usize| i16::from(array.is_valid(row));
            self.levels.extend((0..array.len()).map(there));
        } else if array.null_count() > 0 {
            let name = self.column.name();
            return Err(ParquetError::General(format!(
                "column {name} needs a value in every row"
            )));
        }
        Ok(())
    }

    pub fn end_page(&mut self) -> Result<()> {
        let levels = (self.column.max_def_level() > 0).then_some(&self.levels[..]);
        let pending = &mut self.pending;
        match &mut self.writer {
            ColumnWriter::DoubleColumnWriter(writer) => {
                writer.write_batch(&pending.doubles, levels, None)?
            }
            ColumnWriter::FloatColumnWriter(writer) => {
                writer.write_batch(&pending.floats, levels, None)?
            }
            ColumnWriter::BoolColumnWriter(writer) => {
                writer.write_batch(&pending.truths, levels, None)?
            }
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                writer.write_batch(&pending.texts, levels, None)?
            }
            _ => return Err(wrong_type(&self.column, &self.kind, &self.kind)),
        };
        pending.doubles.clear();
        pending.floats.clear();
        pending.truths.clear();
        pending.texts.clear();
        self.levels.clear();
        Ok(())
    }

    /// The column's pages, and what its row group needs to know of them.
    pub fn close(mut self) -> Result<(Bytes, ColumnCloseResult)> {
        self.end_page()?;
        let close = self.writer.close()?;
        let mut pages = self.pages.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((Bytes::from(std::mem::take(&mut *pages)), close))
    }
}

fn wrong_type(column: &ColumnDescPtr, kind: &DataType, found: &DataType) -> ParquetError {
    let name = column.name();
    ParquetError::General(format!("column {name} holds {kind}, got {found}"))
}
