//! Quotation marks around cells. A reader of CSV joins the text behind a closing one to the cell without a word.

/// Where a character is in its cell.
#[derive(Clone, Copy)]
enum Place {
    Start,
    Plain,
    Quoted,
    /// Behind a quotation mark that closes the cell, unless another one follows.
    Closed,
    /// Behind spaces that follow a closed cell.
    Behind,
}

/// Whether text stands between a closing quotation mark and the end of its cell, in the record that begins here.
pub(super) fn run_on(record: &str, delimiter: char) -> bool {
    let mut place = Place::Start;
    for found in record.chars() {
        place = match (place, found) {
            (Place::Quoted, '"') => Place::Closed,
            (Place::Quoted, _) | (Place::Closed, '"') => Place::Quoted,
            (_, '\n' | '\r') => return false,
            (_, found) if found == delimiter => Place::Start,
            (Place::Start, '"') => Place::Quoted,
            (Place::Start | Place::Plain, _) => Place::Plain,
            (Place::Closed | Place::Behind, found) if found.is_whitespace() => Place::Behind,
            (Place::Closed | Place::Behind, _) => return true,
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_behind_a_quotation_mark_is_found_in_its_record_alone() {
        for record in [
            "\"a\"b",
            "a,\"b\" c,d\n",
            "\"a\n\"\"\"b",
            "\"a\"b\"",
            "\"a\" \"b\"",
        ] {
            assert!(run_on(record, ','), "{record:?}");
        }
        for record in [
            "\"a\"",
            "\"a\" ,b",
            "\"a, \"\"b\"\"\",\"\"",
            "a\"b\"c,d",
            "a\n\"b\"c",
            "\"a\nb\"\r\n\"c\"d",
            "\"a",
        ] {
            assert!(!run_on(record, ','), "{record:?}");
        }
        // A tab is a space, unless it is the delimiter.
        assert!(!run_on("\"a\"\tb", '\t'));
        assert!(run_on("\"a\",b", ';'));
    }
}
