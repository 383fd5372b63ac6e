//! The values in pages that have been read.

use std::sync::Arc;

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::ColumnDescPtr;

/// The values of `rows` rows of the dictionary and these pages, `None` for missing ones.
pub(super) fn values<T: DataType>(
    column: &ColumnDescPtr,
    pages: Vec<Page>,
    rows: usize,
) -> Result<Vec<Option<T::T>>> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    let pages = Box::new(Queue(pages.into_iter()));
    let mut reader = ColumnReaderImpl::<T>::new(Arc::clone(column), pages);
    let (read, ..) = reader.read_records(rows, Some(&mut levels), None, &mut values)?;
    if read != rows {
        return Err(cannot("it has fewer values than rows"));
    }
    let mut values = values.into_iter();
    // A column that has a value in every row has no levels.
    let whole = column.max_def_level();
    levels.resize(rows, whole);
    let levels = levels.into_iter();
    Ok(levels
        .map(|level| (level == whole).then(|| values.next()).flatten())
        .collect())
}

fn cannot(words: &str) -> ParquetError {
    ParquetError::General(words.to_owned())
}

/// Pages that have been read.
struct Queue(std::vec::IntoIter<Page>);

impl Iterator for Queue {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.0.next().map(Ok)
    }
}

impl PageReader for Queue {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.next())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Err(cannot("nothing is skipped"))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        Err(cannot("nothing is skipped"))
    }
}
