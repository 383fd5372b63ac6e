//! The pages of a column: their locations, and their values.

mod page;
mod values;

use std::fs::File;

use self::page::{CODECS, Content, PLAIN, Page, PageKind, SNAPPY, UNCOMPRESSED};
use self::values::{indices, nth};
pub(super) use self::values::{integers, texts};
use super::footer::{Chunk, Column};
use crate::ParquetFault;

/// The pages of a column in a group of rows.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    codec: i64,
    dictionary: Option<Page>,
    /// Each with the row of the group that it begins with.
    pages: Vec<(u64, Page)>,
}

/// A page of byte arrays that has been read.
#[derive(Debug)]
pub(super) struct OpenPage {
    is_plain: bool,
    content: Content,
    dictionary: Option<Content>,
}

impl Pages {
    /// Finds the pages of `rows` values of a column. `length` is the length of the file.
    pub(super) fn find(
        file: &mut File,
        length: u64,
        column: &Column,
        chunk: &Chunk,
        rows: u64,
    ) -> Result<Self, ParquetFault> {
        let end = chunk.start.checked_add(chunk.length);
        let end = end.filter(|&end| end <= length);
        let end = end.ok_or_else(|| damaged(column, "is past the end of the file"))?;
        if let Some(codec) = unread(chunk.codec, &CODECS, &[UNCOMPRESSED, SNAPPY]) {
            return Err(ParquetFault::Unread {
                column: column.name(),
                what: format!("compressed with {codec}"),
                instead: "SNAPPY",
            });
        }
        let mut found = Self {
            codec: chunk.codec,
            dictionary: None,
            pages: Vec::new(),
        };
        let (mut place, mut row) = (chunk.start, 0);
        while row < rows {
            let (kind, page) = Page::read(file, column, place, end)?;
            place = page.place + page.stored;
            match kind {
                PageKind::Dictionary => found.dictionary = Some(page),
                PageKind::Data => {
                    let first = row;
                    row += page.values;
                    found.pages.push((first, page));
                }
                PageKind::Other => {}
            }
        }
        if row == rows {
            Ok(found)
        } else {
            Err(damaged(column, "has more values than rows"))
        }
    }

    /// The stored bytes of the page that contains a row.
    pub(super) fn stored(&self, row: u64) -> u64 {
        self.page(row).map_or(0, |(_, page)| page.stored)
    }

    fn page(&self, row: u64) -> Option<&(u64, Page)> {
        let behind = self.pages.partition_point(|(first, _)| *first <= row);
        self.pages.get(behind.checked_sub(1)?)
    }

    /// The first row of the page that contains a row.
    pub(super) fn first(&self, row: u64) -> Option<u64> {
        self.page(row).map(|(first, _)| *first)
    }

    /// Reads the page that contains a row, and the dictionary of its values if there is one.
    pub(super) fn open(
        &self,
        file: &mut File,
        column: &Column,
        row: u64,
    ) -> Result<OpenPage, ParquetFault> {
        let page = self.page(row);
        let (_, page) = page.ok_or_else(|| damaged(column, "has a page that cannot be read"))?;
        let dictionary = match &self.dictionary {
            Some(dictionary) if page.encoding != PLAIN => {
                Some(dictionary.content(file, column, self.codec)?)
            }
            _ => None,
        };
        Ok(OpenPage {
            is_plain: page.encoding == PLAIN,
            content: page.content(file, column, self.codec)?,
            dictionary,
        })
    }

    /// The numbers of all rows, `None` for missing ones; `of` reads so many of plain values.
    pub(super) fn numbers(
        &self,
        file: &mut File,
        column: &Column,
        mut of: impl FnMut(&[u8], usize) -> Option<Vec<i64>>,
    ) -> Result<Vec<Option<i64>>, ParquetFault> {
        let damaged = || damaged(column, "has a page that cannot be read");
        let dictionary = match &self.dictionary {
            Some(page) => {
                let content = page.content(file, column, self.codec)?;
                of(content.values(), page.values as usize).ok_or_else(damaged)?
            }
            None => Vec::new(),
        };
        let mut all = Vec::new();
        for (_, page) in &self.pages {
            let content = page.content(file, column, self.codec)?;
            let there = content.is_there.iter().filter(|is_there| **is_there);
            let count = there.count();
            let values = if page.encoding == PLAIN {
                of(content.values(), count)
            } else {
                let places = indices(content.values(), count).ok_or_else(damaged)?;
                let values = places.into_iter();
                values
                    .map(|place| dictionary.get(place as usize).copied())
                    .collect()
            };
            let mut values = values.ok_or_else(damaged)?.into_iter();
            let rows = content.is_there.iter();
            all.extend(rows.map(|is_there| is_there.then(|| values.next()).flatten()));
        }
        Ok(all)
    }
}

impl OpenPage {
    /// The bytes that it takes in memory.
    pub(super) fn size(&self) -> usize {
        let dictionary = self.dictionary.as_ref().map_or(0, Content::size);
        self.content.size() + dictionary
    }

    /// The bytes of its row number `at`, from 0; `None` if they are missing.
    pub(super) fn bytes(
        &self,
        column: &Column,
        at: usize,
    ) -> Result<Option<Vec<u8>>, ParquetFault> {
        let damaged = || damaged(column, "has a page that cannot be read");
        let content = &self.content;
        let (before, rest) = content.is_there.split_at_checked(at).ok_or_else(damaged)?;
        if rest.first() != Some(&true) {
            return Ok(None);
        }
        let at = before.iter().filter(|is_there| **is_there).count();
        let found = if self.is_plain {
            nth(content.values(), at)
        } else {
            let places = indices(content.values(), at + 1).ok_or_else(damaged)?;
            let place = *places.last().ok_or_else(damaged)?;
            let dictionary = self.dictionary.as_ref().ok_or_else(damaged)?;
            nth(dictionary.values(), place as usize)
        };
        Ok(Some(found.ok_or_else(damaged)?))
    }
}

fn damaged(column: &Column, words: &str) -> ParquetFault {
    ParquetFault::Damaged(format!("column `{}` {words}", column.name()))
}

/// The name of a number that is not supported.
fn unread(number: i64, names: &[(i64, &str)], read: &[i64]) -> Option<String> {
    if read.contains(&number) {
        return None;
    }
    let known = names.iter().find(|(known, _)| *known == number);
    Some(known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned()))
}
