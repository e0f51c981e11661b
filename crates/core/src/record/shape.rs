//! The decoded size of a Parquet file, before any decoding. Its footer and the headers of all its
//! pages state what decoding allocates. A file that would grow too large is refused here.
//! ```text
//! "PAR1" … column chunks: pages, each with its head … the end: schema, row groups, chunks … its length, "PAR1"
//! ```

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::encoding::table_error;
use super::thrift::Reader;
use crate::bounds::{COLUMNS, FOOTER_BYTES, GROUP_BYTES, PAGE_BYTES, TABLE_BYTES, TABLE_EXPANSION};
use crate::error::{Error, Result};

const MAGIC: &[u8; 4] = b"PAR1";
const TAIL: u64 = 8;
/// Bytes of a page header that are read at first, and at most: it may hold the least and greatest
/// text of the page.
const HEADS: [usize; 2] = [256, 1 << 16];

/// Numbers of types and encodings in the format.
mod number {
    pub const BYTE_ARRAY: i64 = 6;
    pub const FIXED_LEN_BYTE_ARRAY: i64 = 7;
    pub const DICTIONARY_PAGE: i64 = 2;
    pub const DELTA_BYTE_ARRAY: i64 = 7;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Shape {
    pub rows: u64,
    /// In memory, when all columns are decoded.
    pub bytes: u64,
}

/// A column as the schema has it.
#[derive(Clone, Copy, Default)]
struct Leaf {
    kind: i64,
    length: u64,
    /// One value a row.
    flat: bool,
}

/// The position of a column's pages in a row group.
#[derive(Clone, Copy, Default)]
struct Chunk {
    column: usize,
    rows: u64,
    values: u64,
    begin: u64,
    length: u64,
}

#[derive(Default)]
struct Page {
    kind: i64,
    encoding: i64,
    bytes: u64,
    stored: u64,
    values: u64,
}

struct Footer {
    rows: u64,
    leaves: Vec<Leaf>,
    chunks: Vec<Chunk>,
}

/// Opens a Parquet file that may be decoded. Returns an error if it is not Parquet, if its size
/// information is damaged, or if it is beyond a bound.
pub fn open(path: &Path) -> Result<(File, Shape)> {
    let failed = |source| Error::Io {
        path: path.to_path_buf(),
        source,
    };
    let wrong = |what: String| table_error(path, what);
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let end = read_end(&file, size).map_err(wrong)?;
    let data = size - TAIL - end.len() as u64;
    let footer = read_footer(&end).ok_or_else(|| wrong("its end is damaged".to_owned()))?;
    let footer = footer.map_err(|found| wrong(found.to_owned()))?;
    let stored: u64 = footer.chunks.iter().map(|chunk| chunk.length).sum();
    if stored > size {
        return Err(wrong("its columns overlap".to_owned()));
    }
    let mut bytes = 0_u64;
    for group in footer.chunks.chunks(footer.leaves.len().max(1)) {
        let (mut stored, mut grown) = (0_u64, 0_u64);
        for chunk in group {
            let leaf = footer.leaves[chunk.column];
            stored = stored.saturating_add(chunk.length);
            grown = grown.saturating_add(pages(&file, chunk, leaf, data).map_err(wrong)?);
        }
        fits("a row group of", stored, grown, GROUP_BYTES).map_err(wrong)?;
        bytes = bytes.saturating_add(grown);
    }
    fits("", size, bytes, TABLE_BYTES).map_err(wrong)?;
    let rows = footer.rows;
    Ok((file, Shape { rows, bytes }))
}

/// What is decoded is bounded, however few bytes hold it: equal rows take almost none.
fn fits(what: &str, stored: u64, grown: u64, free: u64) -> std::result::Result<(), String> {
    let most = free.max(stored.saturating_mul(TABLE_EXPANSION));
    if grown <= most {
        return Ok(());
    }
    let said =
        format!("{what} {stored} bytes that grow to {grown} in memory, where {most} are the most");
    Err(said.trim_start().to_owned())
}

fn read_end(file: &File, size: u64) -> std::result::Result<Vec<u8>, String> {
    let no_table = || "it does not end as a Parquet file does".to_owned();
    let at = size.checked_sub(TAIL).ok_or_else(no_table)?;
    let mut tail = [0; TAIL as usize];
    file.read_exact_at(&mut tail, at)
        .map_err(|e| e.to_string())?;
    let [a, b, c, d, magic @ ..] = tail;
    if &magic != MAGIC {
        return Err(no_table());
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let begin = at.checked_sub(length).ok_or_else(no_table)?;
    if length > FOOTER_BYTES {
        return Err(format!(
            "its description has {length} bytes, where {FOOTER_BYTES} are the most"
        ));
    }
    let mut end = vec![0; length as usize];
    file.read_exact_at(&mut end, begin)
        .map_err(|e| e.to_string())?;
    Ok(end)
}

/// None: damaged. The inner error names what is not supported.
fn read_footer(end: &[u8]) -> Option<std::result::Result<Footer, &'static str>> {
    let mut footer = Footer {
        rows: 0,
        leaves: Vec::new(),
        chunks: Vec::new(),
    };
    let (mut grouped, mut groups, mut elsewhere) = (0_u64, 0, false);
    Reader(end).fields(|id, kind, reader| {
        match id {
            2 => read_schema(kind, reader, &mut footer.leaves)?,
            3 => footer.rows = u64::try_from(reader.number(kind)?).ok()?,
            4 => reader.structures(kind, |reader| {
                let rows = read_group(reader, &mut footer.chunks, &mut elsewhere)?;
                grouped = grouped.checked_add(rows)?;
                groups += 1;
                Some(())
            })?,
            _ => reader.skip(kind)?,
        }
        Some(())
    })?;
    if elsewhere {
        return Some(Err("its columns are encrypted or lie in other files"));
    }
    if footer.leaves.len() > COLUMNS {
        return Some(Err("it has more than a thousand columns"));
    }
    let columns = footer.leaves.len();
    let whole = footer.chunks.iter().all(|chunk| chunk.column < columns)
        && footer.chunks.len() == columns * groups;
    (grouped == footer.rows && whole).then_some(Ok(footer))
}

/// The columns with values, in order; everything inside a nested table or list counts as part of
/// one.
fn read_schema(kind: u8, reader: &mut Reader, leaves: &mut Vec<Leaf>) -> Option<()> {
    let (mut first, mut nested) = (true, false);
    reader.structures(kind, |reader| {
        let (mut leaf, mut children, mut repetition) = (Leaf::default(), 0, 0);
        reader.fields(|id, kind, reader| {
            match id {
                1 => leaf.kind = reader.number(kind)?,
                2 => leaf.length = u64::try_from(reader.number(kind)?).ok()?,
                3 => repetition = reader.number(kind)?,
                5 => children = reader.number(kind)?,
                _ => reader.skip(kind)?,
            }
            Some(())
        })?;
        nested |= !first && (children > 0 || repetition == 2);
        if children == 0 && !first {
            leaf.flat = !nested;
            leaves.push(leaf);
        }
        first = false;
        Some(())
    })
}

/// The rows of a row group, whose chunks are added.
fn read_group(reader: &mut Reader, chunks: &mut Vec<Chunk>, elsewhere: &mut bool) -> Option<u64> {
    let (mut rows, first) = (0, chunks.len());
    reader.fields(|id, kind, reader| {
        match id {
            1 => reader.structures(kind, |reader| {
                let column = chunks.len() - first;
                chunks.push(Chunk {
                    column,
                    ..read_chunk(reader, elsewhere)?
                });
                Some(())
            })?,
            3 => rows = u64::try_from(reader.number(kind)?).ok()?,
            _ => reader.skip(kind)?,
        }
        Some(())
    })?;
    for chunk in &mut chunks[first..] {
        chunk.rows = rows;
    }
    Some(rows)
}

fn read_chunk(reader: &mut Reader, elsewhere: &mut bool) -> Option<Chunk> {
    let mut chunk = Chunk::default();
    let (mut data, mut dictionary) = (0, None);
    reader.fields(|id, kind, reader| {
        match id {
            1 => *elsewhere |= !reader.binary(kind)?.is_empty(),
            3 => reader.fields(|id, kind, reader| {
                let natural = |reader: &mut Reader| u64::try_from(reader.number(kind)?).ok();
                match id {
                    5 => chunk.values = natural(reader)?,
                    7 => chunk.length = natural(reader)?,
                    9 => data = natural(reader)?,
                    11 => dictionary = Some(natural(reader)?),
                    _ => reader.skip(kind)?,
                }
                Some(())
            })?,
            8 | 9 => {
                *elsewhere = true;
                reader.skip(kind)?;
            }
            _ => reader.skip(kind)?,
        }
        Some(())
    })?;
    chunk.begin = dictionary.unwrap_or(data);
    (chunk.begin <= data).then_some(chunk)
}

/// Memory of a chunk, from the headers of its pages.
fn pages(
    file: &File,
    chunk: &Chunk,
    leaf: Leaf,
    data_end: u64,
) -> std::result::Result<u64, String> {
    let damaged = || format!("the pages of column {} are damaged", chunk.column);
    let end = chunk.begin.checked_add(chunk.length).ok_or_else(damaged)?;
    if end > data_end || (leaf.flat && chunk.values != chunk.rows) {
        return Err(damaged());
    }
    let (mut at, mut values, mut bytes) = (chunk.begin, 0_u64, 0_u64);
    while at < end {
        let (head, page) = read_page(file, at, end).ok_or_else(damaged)?;
        if page.bytes > PAGE_BYTES {
            return Err(format!(
                "a page of column {} has {} bytes, where {PAGE_BYTES} are the most",
                chunk.column, page.bytes
            ));
        }
        if leaf.kind == number::BYTE_ARRAY && page.encoding == number::DELTA_BYTE_ARRAY {
            return Err("its text is written as DELTA_BYTE_ARRAY, which is not read".to_owned());
        }
        at += head + page.stored;
        bytes += page.bytes;
        if page.kind != number::DICTIONARY_PAGE {
            values += page.values;
        }
    }
    if at != end || values != chunk.values {
        return Err(damaged());
    }
    let width = match leaf.kind {
        0 => 1,
        1 | 4 => 4,
        number::BYTE_ARRAY => 16,
        number::FIXED_LEN_BYTE_ARRAY => leaf.length,
        3 => 12,
        _ => 8,
    };
    let decoded = values.saturating_mul(width);
    Ok(match leaf.kind {
        number::BYTE_ARRAY => decoded.saturating_add(bytes),
        _ => decoded.max(bytes),
    })
}

/// The page at a position, and the length of its header. None: damaged, or it extends beyond `end`.
fn read_page(file: &File, at: u64, end: u64) -> Option<(u64, Page)> {
    let left = usize::try_from(end - at).unwrap_or(usize::MAX);
    HEADS.iter().find_map(|&most| {
        let mut bytes = vec![0; most.min(left)];
        file.read_exact_at(&mut bytes, at).ok()?;
        let mut reader = Reader(&bytes);
        let page = read_head(&mut reader)?;
        let head = (bytes.len() - reader.0.len()) as u64;
        (head + page.stored <= end - at).then_some((head, page))
    })
}

fn read_head(reader: &mut Reader) -> Option<Page> {
    let mut page = Page::default();
    reader.fields(|id, kind, reader| {
        match id {
            1 => page.kind = reader.number(kind)?,
            2 => page.bytes = u64::try_from(reader.number(kind)?).ok()?,
            3 => page.stored = u64::try_from(reader.number(kind)?).ok()?,
            5 | 7 | 8 => reader.fields(|inner, kind, reader| {
                match (id, inner) {
                    (_, 1) => page.values = u64::try_from(reader.number(kind)?).ok()?,
                    (5 | 7, 2) | (8, 4) => page.encoding = reader.number(kind)?,
                    _ => reader.skip(kind)?,
                }
                Some(())
            })?,
            _ => reader.skip(kind)?,
        }
        Some(())
    })?;
    Some(page)
}
