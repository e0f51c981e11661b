//! Checks the pages of a column. On a page that contradicts itself, the library would read too far
//! and panic.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// More values than any writer puts into a page: 16 MB with one bit for each.
const PAGE_VALUES_MAX: u32 = 1 << 27;

pub fn damaged(message: &str) -> ParquetError {
    ParquetError::General(message.to_owned())
}

pub fn is_by_dictionary(page: &Page) -> bool {
    #[allow(deprecated)] // what older files call it
    let older = Encoding::PLAIN_DICTIONARY;
    page.is_data_page() && (page.encoding() == Encoding::RLE_DICTIONARY || page.encoding() == older)
}

pub struct Checked {
    pages: Box<dyn PageReader>,
    /// Whether rows may lack a value.
    nullable: bool,
    has_dictionary: bool,
}

impl Checked {
    pub fn new(pages: Box<dyn PageReader>, nullable: bool) -> Self {
        Checked {
            pages,
            nullable,
            has_dictionary: false,
        }
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        if page.num_values() > PAGE_VALUES_MAX {
            return Err(damaged("a page has more values than any page has"));
        }
        match page {
            Page::DictionaryPage { .. } => {
                if std::mem::replace(&mut self.has_dictionary, true) {
                    return Err(damaged("a column has two dictionaries"));
                }
            }
            _ if is_by_dictionary(page) && !self.has_dictionary => {
                return Err(damaged("a page counts on a dictionary that is missing"));
            }
            Page::DataPage {
                def_level_encoding, ..
            } => {
                if self.nullable && *def_level_encoding != Encoding::RLE {
                    return Err(damaged(
                        "a page states which rows have a value in an old way",
                    ));
                }
            }
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                if levels > buf.len() as u64 {
                    return Err(damaged("a page is shorter than it states"));
                }
            }
        }
        Ok(())
    }
}

impl Iterator for Checked {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Checked {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}
