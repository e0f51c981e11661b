//! One column of a row group. This module encodes whole numbers and names as Parquet pages; the
//! library encodes everything else.
//! ```text
//! rows or arrays ─▶ page: [which are there] [values] ─ zstd ─▶ pages ─▶ row group
//!   └─ names not met yet ─▶ dictionary ─────────────────────────▲ first
//! ```
//!
//! The library hashes each name, compares it with the least and the greatest, and packs numbers bit
//! by bit. Tailrace's rows already hold indices, and with the library, writing a run of 70,000
//! clients took as long as simulating it (benches/sim/README.md).

use super::dictionary::{Dictionary, NO_INDEX};
use super::encoding::ZSTD_LEVEL;
use super::library::append_page;
use super::numbers::Numbers;
use super::packing::{run, run_of_equal};
use super::types::is_names;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int16Type, Int32Type, Int64Type, Int8Type, UInt16Type, UInt32Type, UInt64Type, UInt8Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::ColumnDescPtr;
use std::borrow::Cow;
use std::io::Write;
use zstd::bulk::Compressor;

/// Numbers that zstd shortens by less than this fraction are written uncompressed …
const WORTH_IT: usize = 20;
/// … if a page has at least this many bytes: a bit for each row.
const TELLS: usize = 1 << 10;
/// Initial room for a page: most have fewer bytes.
const PAGE_BYTES: usize = 1 << 15;
/// Bytes of a name in statistics; the library cuts longer ones.
const STATISTICS_MAX: usize = 64;

pub struct Chunk {
    column: ColumnDescPtr,
    kind: DataType,
    pages: Vec<u8>,
    /// Whether pages are compressed; unknown before the first.
    compresses: Option<bool>,
    uncompressed: usize,
    rows: u64,
    nulls: u64,
    names: Dictionary,
    /// The current page: its rows; 1 for a row with a value and 0 for others, if there are others
    /// (at least up to the last of them); and the values.
    page_rows: usize,
    levels: Vec<u32>,
    numbers: Numbers,
    indices: Vec<u32>,
}

impl Chunk {
    /// Whether this module encodes columns of this kind.
    pub fn makes(kind: &DataType) -> bool {
        is_names(kind) || kind.is_integer()
    }

    /// In the memory of an earlier one, if there was one.
    pub fn new(column: ColumnDescPtr, kind: &DataType, memory: Vec<u8>) -> Self {
        Chunk {
            column,
            kind: kind.clone(),
            pages: memory,
            compresses: None,
            uncompressed: 0,
            rows: 0,
            nulls: 0,
            names: Dictionary::default(),
            page_rows: 0,
            levels: Vec::new(),
            numbers: Numbers::new(kind),
            indices: Vec::new(),
        }
    }

    /// More rows of the current page.
    pub fn push(&mut self, array: &ArrayRef) -> Result<()> {
        if array.data_type() != &self.kind {
            return Err(self.wrong_type(array.data_type()));
        }
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            self.some_are_missing()?;
            self.levels.extend(nulls.iter().map(u32::from));
        }
        self.page_rows += array.len();
        self.nulls += array.null_count() as u64;
        let numbers = &mut self.numbers.pending;
        match self.kind {
            DataType::Int64 => gather::<Int64Type>(array, numbers, |value| value),
            DataType::UInt64 => gather::<UInt64Type>(array, numbers, |value| value as i64),
            DataType::Int32 => gather::<Int32Type>(array, numbers, i64::from),
            DataType::Int16 => gather::<Int16Type>(array, numbers, i64::from),
            DataType::Int8 => gather::<Int8Type>(array, numbers, i64::from),
            DataType::UInt32 => gather::<UInt32Type>(array, numbers, i64::from),
            DataType::UInt16 => gather::<UInt16Type>(array, numbers, i64::from),
            DataType::UInt8 => gather::<UInt8Type>(array, numbers, i64::from),
            _ => self.names.gather(array, &mut self.indices),
        }
        self.numbers.pack();
        Ok(())
    }

    /// The same for whole numbers; `missing` means no value.
    pub fn push_numbers(
        &mut self,
        values: impl Iterator<Item = i64>,
        missing: Option<i64>,
    ) -> Result<()> {
        if is_names(&self.kind) {
            return Err(self.wrong_type("whole numbers"));
        }
        let numbers = &mut self.numbers.pending;
        let begin = numbers.len();
        numbers.extend(values);
        let rows = numbers.len() - begin;
        let missing = missing.filter(|missing| numbers[begin..].contains(missing));
        if let Some(missing) = missing {
            self.some_are_missing()?;
            self.nulls += take_out(&mut self.numbers.pending, begin, missing, &mut self.levels);
        }
        self.page_rows += rows;
        self.numbers.pack();
        Ok(())
    }

    /// The same for names that the writer numbers, each always by the same number.
    pub fn push_names<'n>(
        &mut self,
        numbers: impl Iterator<Item = u32>,
        name_of: impl Fn(u32) -> Option<Cow<'n, str>>,
    ) -> Result<()> {
        if !is_names(&self.kind) {
            return Err(self.wrong_type("names"));
        }
        let begin = self.indices.len();
        for number in numbers {
            let Some(index) = self.names.index_of(number, &name_of) else {
                let column = self.column.name();
                return Err(ParquetError::General(format!(
                    "column {column}: a row has a name that nobody knows"
                )));
            };
            self.indices.push(index);
        }
        let rows = self.indices.len() - begin;
        if self.indices[begin..].contains(&NO_INDEX) {
            self.some_are_missing()?;
            self.nulls += take_out(&mut self.indices, begin, NO_INDEX, &mut self.levels);
        }
        self.page_rows += rows;
        Ok(())
    }

    /// The same for names as text.
    pub fn push_texts<'n>(&mut self, texts: impl Iterator<Item = &'n str>) -> Result<()> {
        if !is_names(&self.kind) {
            return Err(self.wrong_type("names"));
        }
        let before = self.indices.len();
        self.indices
            .extend(texts.map(|text| self.names.index(text)));
        self.page_rows += self.indices.len() - before;
        Ok(())
    }

    fn wrong_type(&self, found: impl std::fmt::Display) -> ParquetError {
        let column = self.column.name();
        ParquetError::General(format!("column {column} holds {}, got {found}", self.kind))
    }

    /// Marks the following rows as present, if the column allows nulls.
    fn some_are_missing(&mut self) -> Result<()> {
        if self.column.max_def_level() == 0 {
            let column = self.column.name();
            return Err(ParquetError::General(format!(
                "column {column} needs a value in every row"
            )));
        }
        self.levels.resize(self.page_rows, 1);
        Ok(())
    }

    /// Ends the current page.
    pub fn end_page(&mut self, zstd: &mut Compressor) -> Result<()> {
        if self.page_rows == 0 {
            return Ok(());
        }
        let mut page = Vec::with_capacity(PAGE_BYTES);
        if self.column.max_def_level() > 0 {
            page.extend_from_slice(&[0; 4]);
            if self.levels.is_empty() {
                run_of_equal(1, self.page_rows, 1, &mut page);
            } else {
                self.levels.resize(self.page_rows, 1);
                run(&self.levels, 1, &mut page);
            }
            let length = page.len() as u32 - 4;
            page[..4].copy_from_slice(&length.to_le_bytes());
        }
        let encoding = if is_names(&self.kind) {
            let width = self.names.width();
            page.push(width as u8);
            run(&self.indices, width, &mut page);
            Encoding::RLE_DICTIONARY
        } else {
            self.numbers.end_page(&mut page);
            Encoding::DELTA_BINARY_PACKED
        };
        let length = page.len();
        let page = self.compressed(page, zstd)?;
        self.write_page(CompressedPage::new(
            Page::DataPage {
                buf: page.into(),
                num_values: self.page_rows as u32,
                encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            },
            length,
        ))?;
        self.rows += std::mem::take(&mut self.page_rows) as u64;
        self.levels.clear();
        self.indices.clear();
        Ok(())
    }

    /// Packed moments and ids are practically random, and compressing them took as long as packing.
    /// If the first page of a row group hardly gets shorter, no page of numbers is compressed. A
    /// page of a few bytes (no row has a value) does not decide this.
    fn compressed(&mut self, page: Vec<u8>, zstd: &mut Compressor) -> Result<Vec<u8>> {
        if self.compresses == Some(false) {
            return Ok(page);
        }
        let compressed = zstd.compress(&page)?;
        let gains = compressed.len() < page.len() - page.len() / WORTH_IT;
        let compresses = gains || page.len() < TELLS || is_names(&self.kind);
        Ok(match *self.compresses.get_or_insert(compresses) {
            true => compressed,
            false => page,
        })
    }

    fn codec(&self) -> Result<Compression> {
        Ok(match self.compresses {
            Some(false) => Compression::UNCOMPRESSED,
            _ => Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?),
        })
    }

    fn write_page(&mut self, page: CompressedPage) -> Result<()> {
        self.uncompressed += append_page(&mut self.pages, page)?.uncompressed_size;
        Ok(())
    }

    /// Returns the memory that it took.
    pub fn append_to<W: Write + Send>(
        mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        zstd: &mut Compressor,
    ) -> Result<Vec<u8>> {
        self.end_page(zstd)?;
        let mut bytes = std::mem::take(&mut self.pages);
        if is_names(&self.kind) {
            self.write_dictionary(zstd)?;
        }
        let metadata = self.metadata(self.pages.len(), bytes.len())?;
        bytes.splice(..0, self.pages.drain(..));
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        let bytes = Bytes::from(bytes);
        group.append_column(&bytes, close)?;
        let mut memory = Vec::from(bytes);
        memory.clear();
        Ok(memory)
    }

    fn write_dictionary(&mut self, zstd: &mut Compressor) -> Result<()> {
        let plain = self.names.take_plain();
        let length = plain.len();
        let page = self.compressed(plain, zstd)?;
        self.write_page(CompressedPage::new(
            Page::DictionaryPage {
                buf: page.into(),
                num_values: self.names.len() as u32,
                encoding: Encoding::PLAIN,
                is_sorted: false,
            },
            length,
        ))
    }

    fn metadata(&self, data_offset: usize, data_length: usize) -> Result<ColumnChunkMetaData> {
        let of_values = if is_names(&self.kind) {
            vec![Encoding::PLAIN, Encoding::RLE_DICTIONARY]
        } else {
            vec![Encoding::DELTA_BINARY_PACKED]
        };
        ColumnChunkMetaData::builder(self.column.clone())
            .set_compression(self.codec()?)
            .set_encodings([of_values, vec![Encoding::RLE]].concat())
            .set_num_values(self.rows as i64)
            .set_total_compressed_size((data_offset + data_length) as i64)
            .set_total_uncompressed_size(self.uncompressed as i64)
            .set_dictionary_page_offset(is_names(&self.kind).then_some(0))
            .set_data_page_offset(data_offset as i64)
            .set_statistics(self.statistics())
            .build()
    }

    /// Statistics by which a reader may skip the row group.
    fn statistics(&self) -> Statistics {
        let nulls = Some(self.nulls);
        let (least, greatest) = self.numbers.range().unzip();
        match self.kind {
            DataType::Int64 | DataType::UInt64 => {
                Statistics::new(least, greatest, None, nulls, false)
            }
            _ if !is_names(&self.kind) => Statistics::new(
                least.map(|value| value as i32),
                greatest.map(|value| value as i32),
                None,
                nulls,
                false,
            ),
            _ => {
                let (least, greatest) = self.names.ends();
                let (least, greatest) = (in_statistics(least), in_statistics(greatest));
                Statistics::new(least, greatest, None, nulls, false)
            }
        }
    }
}

/// None if it is long, because the footer holds it for each row group.
fn in_statistics(name: Option<&String>) -> Option<ByteArray> {
    let short = name.filter(|name| name.len() <= STATISTICS_MAX);
    short.map(|name| ByteArray::from(name.as_str()))
}

/// Removes missing values from `begin` on, and marks in `levels` which are present; returns how
/// many are missing.
fn take_out<T: Copy + PartialEq>(
    values: &mut Vec<T>,
    begin: usize,
    missing: T,
    levels: &mut Vec<u32>,
) -> u64 {
    let mut kept = begin;
    for at in begin..values.len() {
        let value = values[at];
        values[kept] = value;
        let there = value != missing;
        levels.push(u32::from(there));
        kept += usize::from(there);
    }
    let out = values.len() - kept;
    values.truncate(kept);
    out as u64
}

/// The values that are present.
fn gather<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    numbers: &mut Vec<i64>,
    number: impl Fn(T::Native) -> i64,
) {
    let array = array.as_primitive::<T>();
    if array.null_count() == 0 {
        numbers.extend(array.values().iter().map(|&value| number(value)));
    } else {
        numbers.extend(array.iter().flatten().map(number));
    }
}
