//! A column of text as numbers of names. A writer puts names into a dictionary and numbers into the
//! pages, and a reader wants these numbers. They are decoded like any column of numbers; pages of
//! text are first converted to pages of numbers.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, StringArray};
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::ByteArrayType;
use parquet::errors::Result;
use parquet::schema::types::ColumnDescPtr;
use rustc_hash::FxHashMap;

use super::pages::{damaged, is_by_dictionary};
use crate::record::packing;

/// The names of a row group so far, each by its number.
#[derive(Default)]
pub struct NameList {
    text: String,
    /// The end of each name; the first begins at 0.
    ends: Vec<i32>,
    /// The numbers of names from pages of text.
    known: FxHashMap<Box<str>, i32>,
}

impl NameList {
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn push(&mut self, name: &[u8]) -> Result<i32> {
        let name = std::str::from_utf8(name).map_err(|_| damaged("a name is not UTF-8"))?;
        self.text.push_str(name);
        let end = i32::try_from(self.text.len());
        self.ends
            .push(end.map_err(|_| damaged("the names of a column take more than 2 GiB"))?);
        Ok(self.ends.len() as i32 - 1)
    }

    fn number(&mut self, name: &[u8]) -> Result<i32> {
        let known = std::str::from_utf8(name)
            .ok()
            .and_then(|name| self.known.get(name));
        if let Some(&number) = known {
            return Ok(number);
        }
        let number = self.push(name)?;
        let name = &self.text[self.text.len() - name.len()..];
        self.known.insert(name.into(), number);
        Ok(number)
    }

    pub fn array(&self) -> ArrayRef {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|&end| end as usize));
        let names = begins
            .zip(&self.ends)
            .map(|(begin, &end)| &self.text[begin..end as usize]);
        Arc::new(StringArray::from_iter_values(names))
    }
}

pub type SharedNames = Arc<Mutex<NameList>>;

/// Converts the pages of a column of text to those of a column of numbers.
pub struct Numbered {
    pages: Box<dyn PageReader>,
    column: ColumnDescPtr,
    names: SharedNames,
}

impl Numbered {
    pub fn new(pages: Box<dyn PageReader>, column: ColumnDescPtr, names: SharedNames) -> Self {
        Numbered {
            pages,
            column,
            names,
        }
    }

    /// Replaces the dictionary of names by that of their numbers.
    fn dictionary(&mut self, page: &Bytes, count: u32) -> Result<Page> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut rest, mut numbers) = (&page[..], Vec::new());
        for _ in 0..count {
            let cut = || damaged("a dictionary ends within a name");
            let (length, others) = rest.split_first_chunk().ok_or_else(cut)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (name, others) = others.split_at_checked(length).ok_or_else(cut)?;
            numbers.extend_from_slice(&names.push(name)?.to_le_bytes());
            rest = others;
        }
        Ok(Page::DictionaryPage {
            buf: numbers.into(),
            num_values: count,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        })
    }

    /// A page of text, in any encoding.
    fn text(&mut self, page: Page) -> Result<Page> {
        let count = page.num_values();
        let one = OnePage(Some(page));
        let mut reader = ColumnReaderImpl::<ByteArrayType>::new(self.column.clone(), Box::new(one));
        let (mut levels, mut texts) = (Vec::new(), Vec::new());
        let (rows, ..) =
            reader.read_records(count as usize, Some(&mut levels), None, &mut texts)?;
        if rows < count as usize {
            return Err(damaged("a page has fewer values than it states"));
        }
        let mut buf = Vec::new();
        let levels: Vec<u32> = levels.iter().map(|&level| u32::from(level > 0)).collect();
        packing::run(&levels, 1, &mut buf);
        let def_levels_byte_len = buf.len() as u32;
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for text in &texts {
            buf.extend_from_slice(&names.number(text.data())?.to_le_bytes());
        }
        Ok(Page::DataPageV2 {
            buf: buf.into(),
            num_values: count,
            encoding: Encoding::PLAIN,
            num_nulls: count - texts.len() as u32,
            num_rows: count,
            def_levels_byte_len,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        })
    }
}

impl Iterator for Numbered {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Numbered {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.map(|page| match page {
            Page::DictionaryPage {
                buf, num_values, ..
            } => self.dictionary(&buf, num_values),
            page if is_by_dictionary(&page) => Ok(page),
            page => self.text(page),
        })
        .transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

struct OnePage(Option<Page>);

impl Iterator for OnePage {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageReader for OnePage {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}
