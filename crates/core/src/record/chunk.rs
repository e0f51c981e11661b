//! One column of a row group: whole numbers and names become Parquet's pages here, everything else in the library.
//!
//! ```text
//! arrays ─▶ page: [which are there] [values] ─ zstd ─▶ pages ─▶ row group
//!   └─ names not met yet ─▶ dictionary ─────────────────▲ first
//! ```
//! The library looks each name up by its hash, compares it with the least and the greatest, and packs numbers bit by bit.
//! Rows of ours name what they mean by an index already, and a run of 70,000 clients was written for as long as it was
//! simulated (benches/sim/README.md).

use super::encoding::ZSTD_LEVEL;
use super::packing::{delta_packed, run, Width};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type, UInt8Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use rustc_hash::FxHashMap;
use std::io::Write;
use zstd::bulk::Compressor;

/// Numbers that zstd makes shorter by less than one in so many are written as they are …
const WORTH_IT: usize = 20;
/// … as far as a page of so many bytes tells: a bit for each row.
const TELLS: usize = 1 << 10;
/// Bytes of a name in statistics; longer ones the library cuts.
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
    /// The least and the greatest number, in the type's own order (see [`ordered`]).
    range: Option<(i64, i64)>,
    names: Dictionary,
    /// Of the page that is being made: its rows; where not all need have a value, 1 for those that have; and the values.
    page_rows: usize,
    levels: Vec<u32>,
    numbers: Vec<i64>,
    indices: Vec<u32>,
}

/// The dictionary of a chunk, in the order in which rows first had its names. It is not bounded: a capture has few, and
/// whoever writes a table from elsewhere has them in memory.
#[derive(Default)]
struct Dictionary {
    known: FxHashMap<String, u32>,
    /// Each after its length.
    plain: Vec<u8>,
}

impl Dictionary {
    fn index(&mut self, name: &str) -> u32 {
        if let Some(&index) = self.known.get(name) {
            return index;
        }
        let index = self.known.len() as u32;
        self.known.insert(name.to_owned(), index);
        self.plain
            .extend_from_slice(&(name.len() as u32).to_le_bytes());
        self.plain.extend_from_slice(name.as_bytes());
        index
    }

    /// None where it is long: the end of a file has it for each row group.
    fn in_statistics(name: Option<&String>) -> Option<ByteArray> {
        let short = name.filter(|name| name.len() <= STATISTICS_MAX);
        short.map(|name| ByteArray::from(name.as_str()))
    }

    /// The indices of the names that are there.
    fn gather(&mut self, array: &ArrayRef, indices: &mut Vec<u32>) {
        let dictionary = array.as_dictionary::<Int32Type>();
        let (keys, values) = (dictionary.keys(), dictionary.values().as_string::<i32>());
        let mut indices_of = vec![u32::MAX; values.len()];
        let mut index = |key: i32| {
            let place = &mut indices_of[key as usize];
            if *place == u32::MAX {
                *place = self.index(values.value(key as usize));
            }
            *place
        };
        if keys.null_count() == 0 {
            indices.extend(keys.values().iter().map(|&key| index(key)));
        } else {
            indices.extend(keys.iter().flatten().map(index));
        }
    }

    /// Bits of an index.
    fn width(&self) -> u32 {
        u32::BITS - (self.known.len().saturating_sub(1) as u32).leading_zeros()
    }
}

/// Unsigned numbers in the order of signed ones.
fn ordered(kind: &DataType, value: i64) -> i64 {
    match kind {
        DataType::UInt64 => value ^ i64::MIN,
        _ => value,
    }
}

fn is_names(kind: &DataType) -> bool {
    matches!(kind, DataType::Dictionary(key, value) if **key == DataType::Int32 && **value == DataType::Utf8)
}

impl Chunk {
    /// None: the column is one for the library.
    pub fn new(column: ColumnDescPtr, kind: &DataType) -> Option<Self> {
        let ours = is_names(kind)
            || matches!(
                kind,
                DataType::Int64
                    | DataType::UInt64
                    | DataType::Int32
                    | DataType::UInt32
                    | DataType::UInt8
            );
        ours.then(|| Chunk {
            column,
            kind: kind.clone(),
            pages: Vec::new(),
            compresses: None,
            uncompressed: 0,
            rows: 0,
            nulls: 0,
            range: None,
            names: Dictionary::default(),
            page_rows: 0,
            levels: Vec::new(),
            numbers: Vec::new(),
            indices: Vec::new(),
        })
    }

    /// More rows of the page that is being made.
    pub fn push(&mut self, array: &ArrayRef) -> Result<()> {
        if array.data_type() != &self.kind {
            let (column, found) = (self.column.name(), array.data_type());
            return Err(ParquetError::General(format!(
                "column {column} holds {}, got {found}",
                self.kind
            )));
        }
        if self.column.max_def_level() > 0 {
            match array.nulls() {
                None => self.levels.resize(self.levels.len() + array.len(), 1),
                Some(nulls) => self.levels.extend(nulls.iter().map(u32::from)),
            }
        }
        self.page_rows += array.len();
        self.nulls += array.null_count() as u64;
        let numbers = &mut self.numbers;
        match self.kind {
            DataType::Int64 => gather::<Int64Type>(array, numbers, |value| value),
            DataType::UInt64 => gather::<UInt64Type>(array, numbers, |value| value as i64),
            DataType::Int32 => gather::<Int32Type>(array, numbers, i64::from),
            DataType::UInt32 => gather::<UInt32Type>(array, numbers, i64::from),
            DataType::UInt8 => gather::<UInt8Type>(array, numbers, i64::from),
            _ => self.names.gather(array, &mut self.indices),
        }
        Ok(())
    }

    /// What was pushed becomes a page.
    pub fn end_page(&mut self, zstd: &mut Compressor) -> Result<()> {
        if self.page_rows == 0 {
            return Ok(());
        }
        let mut page = Vec::new();
        if self.column.max_def_level() > 0 {
            page.extend_from_slice(&[0; 4]);
            run(&self.levels, 1, &mut page);
            let length = page.len() as u32 - 4;
            page[..4].copy_from_slice(&length.to_le_bytes());
        }
        let encoding = if is_names(&self.kind) {
            let width = self.names.width();
            page.push(width as u8);
            run(&self.indices, width, &mut page);
            Encoding::RLE_DICTIONARY
        } else {
            delta_packed(&self.numbers, self.width(), &mut page);
            self.widen_range();
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
        self.numbers.clear();
        self.indices.clear();
        Ok(())
    }

    /// Packed moments and ids are as good as random, and compressing them took as long as packing: if the first page of
    /// a row group hardly gains by it, no page of numbers is. A page of a few bytes (no row has a value) tells nothing.
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

    fn width(&self) -> Width {
        match self.kind {
            DataType::Int64 | DataType::UInt64 => Width::Bits64,
            _ => Width::Bits32,
        }
    }

    fn widen_range(&mut self) {
        let in_order = self.numbers.iter().map(|&value| ordered(&self.kind, value));
        self.range = in_order.fold(self.range, |range, value| {
            let (least, greatest) = range.unwrap_or((value, value));
            Some((least.min(value), greatest.max(value)))
        });
    }

    fn write_page(&mut self, page: CompressedPage) -> Result<()> {
        let mut pages = TrackedWrite::new(&mut self.pages);
        let written = SerializedPageWriter::new(&mut pages).write_page(page)?;
        pages.into_inner()?;
        self.uncompressed += written.uncompressed_size;
        Ok(())
    }

    pub fn append_to<W: Write + Send>(
        mut self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        zstd: &mut Compressor,
    ) -> Result<()> {
        self.end_page(zstd)?;
        let data = std::mem::take(&mut self.pages);
        if is_names(&self.kind) {
            self.write_dictionary(zstd)?;
        }
        let metadata = self.metadata(self.pages.len(), data.len())?;
        let bytes = [std::mem::take(&mut self.pages), data].concat();
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        group.append_column(&Bytes::from(bytes), close)
    }

    fn write_dictionary(&mut self, zstd: &mut Compressor) -> Result<()> {
        let plain = std::mem::take(&mut self.names.plain);
        let length = plain.len();
        let page = self.compressed(plain, zstd)?;
        self.write_page(CompressedPage::new(
            Page::DictionaryPage {
                buf: page.into(),
                num_values: self.names.known.len() as u32,
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

    /// By which a reader may pass over the row group.
    fn statistics(&self) -> Statistics {
        let nulls = Some(self.nulls);
        let ends = self
            .range
            .map(|(least, greatest)| (ordered(&self.kind, least), ordered(&self.kind, greatest)));
        let (least, greatest) = ends.unzip();
        match self.kind {
            DataType::Int64 | DataType::UInt64 => {
                Statistics::new(least, greatest, None, nulls, false)
            }
            DataType::Int32 | DataType::UInt32 | DataType::UInt8 => Statistics::new(
                least.map(|value| value as i32),
                greatest.map(|value| value as i32),
                None,
                nulls,
                false,
            ),
            _ => Statistics::new(
                Dictionary::in_statistics(self.names.known.keys().min()),
                Dictionary::in_statistics(self.names.known.keys().max()),
                None,
                nulls,
                false,
            ),
        }
    }
}

/// The values that are there.
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
