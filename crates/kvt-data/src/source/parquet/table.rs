//! One Parquet file of images and labels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fs_err as fs;
use parquet::basic::Type;
use parquet::schema::types::ColumnDescPtr;

use super::classes;
use super::footer::{self, name, words};
use super::labels::{LabelColumns, in_order, noted_classes, number, to_labels};
use super::pages::{OpenPage, Pages, Spot};
use crate::{DataError, ParquetFault};

/// The column of the images if there are several candidates.
const IMAGE: &str = "image";
/// The part of such a column that contains the image file.
const BYTES: &str = "bytes";

/// Bytes of a page that a thread keeps for the next image. Writers first check the size of a page after 1,024 rows, so a
/// page can contain all images of a group.
const KEPT: usize = 64 << 20;

/// A page, and what identifies it: the number of its table, and its first row.
struct Kept {
    table: u64,
    start: u64,
    page: OpenPage,
}

static OPENED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The page that this thread read last: images that are read in order share a page.
    static LAST: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// A file whose rows are images.
#[derive(Debug)]
pub(in crate::source) struct Table {
    pub(in crate::source) path: PathBuf,
    /// Unique among all tables that this process has opened.
    number: u64,
    images: ColumnDescPtr,
    groups: Vec<Group>,
}

/// A group of rows: the first one, and where their images are.
#[derive(Debug)]
struct Group {
    first: u64,
    pages: Pages,
}

/// A table, and what is read from its file when it is opened.
pub(super) struct Read {
    pub(super) table: Table,
    pub(super) labels: Vec<u32>,
    /// The names that the labels are, each once; `None` if they are numbers.
    pub(super) text: Option<Vec<String>>,
    /// The names of the classes, if the file contains them.
    pub(super) classes: Option<Vec<String>>,
    /// The classes in the order of their names, if each has a column.
    pub(super) columns: Option<Vec<String>>,
}

/// Opens a file and reads its labels from the given column. With `may_lack` its text may be empty or missing, and where there is no such
/// column, each class has one.
pub(super) fn read(path: &Path, label: &str, may_lack: bool) -> Result<Read, DataError> {
    let fault = |fault| DataError::Parquet {
        path: path.to_owned(),
        fault,
    };
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(fault(ParquetFault::Damaged("not a file".to_owned())));
    }
    let mut file = fs::File::open(path)?.into_file();
    Table::read(path, &mut file, metadata.len(), (label, may_lack)).map_err(fault)
}

impl Table {
    fn read(
        path: &Path,
        file: &mut File,
        length: u64,
        (label, may_lack): (&str, bool),
    ) -> Result<Read, ParquetFault> {
        let metadata = footer::read(file, length)?;
        let described = metadata.file_metadata();
        let columns = described.schema_descr().columns();
        let images = image_column(columns)?;
        let labelled = LabelColumns::find(columns, images, label, may_lack)?;
        // The labels of all rows as numbers, `None` for missing ones, and the number of each name.
        let (mut numbers, mut known) = (Vec::new(), HashMap::new());
        let mut groups = Vec::new();
        let (mut first, mut room) = (0, classes::room(length));
        for group in metadata.row_groups() {
            let rows = group.num_rows() as u64;
            let find =
                |file: &mut File, column| Pages::find(file, length, group.column(column), rows);
            let pages = find(file, images)?;
            groups.push(Group { first, pages });
            match &labelled {
                LabelColumns::One(column) => {
                    numbers.extend(find(file, *column)?.numbers(file, &mut known)?);
                }
                LabelColumns::OfClasses(places) => {
                    let mut texts = vec![String::new(); rows as usize];
                    for &place in places {
                        let pages = find(file, place)?;
                        let texts = (&mut texts[..], &mut room);
                        classes::add(texts, first, &columns[place], &pages, file)?;
                    }
                    let of_rows = texts.into_iter();
                    numbers.extend(of_rows.map(|text| Some(number(text, &mut known))));
                }
            }
            first += rows;
        }
        let is_text = labelled.is_text(columns);
        // An empty name is none, and the label of a row that may lack one.
        let mut none = known.get("").copied();
        if may_lack && is_text {
            let nothing = number(String::new(), &mut known);
            for number in &mut numbers {
                *number = number.or(Some(nothing));
            }
            none = None;
        }
        Ok(Read {
            labels: to_labels(numbers, none, label)?,
            text: is_text.then(|| in_order(known)),
            classes: noted_classes(described.key_value_metadata(), label),
            columns: labelled.classes(columns),
            table: Self {
                path: path.to_owned(),
                number: OPENED.fetch_add(1, Ordering::Relaxed),
                images: Arc::clone(&columns[images]),
                groups,
            },
        })
    }

    /// The page of a row, among the pages of its group, and the row within it.
    fn page(&self, row: u64) -> Option<(&Pages, &Spot, u64)> {
        let behind = self.groups.partition_point(|group| group.first <= row);
        let Group { first, pages } = self.groups.get(behind.checked_sub(1)?)?;
        let page = pages.page(row - first)?;
        Some((pages, page, row - first - page.first))
    }

    /// The stored bytes of the page that contains an image.
    pub(in crate::source) fn stored(&self, row: u64) -> u64 {
        self.page(row).map_or(0, |(_, page, _)| page.stored.into())
    }

    /// The image file of a row.
    ///
    /// # Errors
    ///
    /// The reason, as text.
    pub(in crate::source) fn image(&self, row: u64) -> Result<Vec<u8>, String> {
        let (pages, spot, at) = self.page(row).ok_or("no such row")?;
        let (table, start) = (self.number, row - at);
        let found = LAST.with_borrow_mut(|last| {
            // Another page is dropped before the next one is read.
            let is_it = |kept: &Kept| kept.table == table && kept.start == start;
            let page = match last.take().filter(is_it) {
                Some(kept) => kept.page,
                None => self.open(pages, spot)?,
            };
            let bytes = page.bytes(at as usize);
            if page.size <= KEPT {
                *last = Some(Kept { table, start, page });
            }
            Ok::<_, String>(bytes)
        })?;
        found.ok_or_else(|| {
            format!(
                "column `{}` is empty in this row: write the data set again with the images in it",
                name(&self.images)
            )
        })
    }

    /// Reads a page. The file is opened each time: a data set may have more files than
    /// the allowed number of open files.
    fn open(&self, pages: &Pages, spot: &Spot) -> Result<OpenPage, String> {
        let mut file = File::open(&self.path).map_err(|error| error.to_string())?;
        let page = pages.open(&mut file, spot);
        page.map_err(|fault| fault.to_string())
    }
}

/// The column of images: `image.bytes`, or the only similar column under another name.
fn image_column(columns: &[ColumnDescPtr]) -> Result<usize, ParquetFault> {
    let is_image = |column: &ColumnDescPtr| {
        let path = column.path().parts();
        let is_path =
            matches!(path, [_, part] if part == BYTES) || matches!(path, [name] if name == IMAGE);
        is_path && column.physical_type() == Type::BYTE_ARRAY && column.max_rep_level() == 0
    };
    let candidates = columns.iter().enumerate().filter(|(_, c)| is_image(c));
    let found: Vec<_> = candidates
        .map(|(at, column)| (at, &column.path().parts()[..1]))
        .collect();
    let named = found.iter().find(|(_, name)| *name == [IMAGE]);
    match (named, found.as_slice()) {
        (Some((at, _)), _) | (None, [(at, _)]) => Ok(*at),
        (None, []) => Err(ParquetFault::NoImages(names(columns))),
        (None, several) => Err(ParquetFault::SeveralImages(
            several.iter().map(|(_, name)| words(name)).collect(),
        )),
    }
}

/// The columns of a file, for a message.
pub(super) fn names(columns: &[ColumnDescPtr]) -> Vec<String> {
    columns.iter().map(|column| name(column)).collect()
}
