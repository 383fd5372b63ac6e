//! Which epochs a table shows.

/// The columns of the paper's Table 2.
const PAPER_EPOCHS: [u32; 9] = [10, 30, 50, 70, 90, 120, 150, 200, 300];
/// More columns than this do not fit a page.
const MAX_COLUMNS: usize = 12;

/// The columns of the table: every epoch if they fit; the paper's columns for a run of the paper's length; otherwise a round
/// step. The last epoch is always included.
pub(super) fn columns(evaluated: &[u32]) -> Vec<u32> {
    const STEPS: [u32; 12] = [1, 2, 5, 10, 15, 20, 25, 30, 50, 100, 200, 500];
    let Some(&last) = evaluated.last() else {
        return Vec::new();
    };
    if evaluated.len() <= MAX_COLUMNS {
        return evaluated.to_vec();
    }
    let with_last = |epochs: &mut dyn Iterator<Item = u32>| {
        let mut epochs: Vec<u32> = epochs.take_while(|epoch| *epoch < last).collect();
        epochs.push(last);
        epochs
    };
    let all_there = |epochs: &[u32]| {
        epochs.len() <= MAX_COLUMNS
            && epochs
                .iter()
                .all(|epoch| evaluated.binary_search(epoch).is_ok())
    };
    let paper = with_last(&mut PAPER_EPOCHS.into_iter());
    if last >= 300 && all_there(&paper) {
        return paper;
    }
    for step in STEPS {
        let even = with_last(&mut (1..).map(|index| index * step));
        if even.len() >= MAX_COLUMNS / 2 && all_there(&even) {
            return even;
        }
    }
    // Evaluations at irregular epochs: choose columns evenly by index.
    (1..=MAX_COLUMNS)
        .filter_map(|column| {
            let index = (column * evaluated.len()).div_ceil(MAX_COLUMNS) - 1;
            evaluated.get(index).copied()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_the_length_of_the_run() {
        let first = |last: u32| columns(&(1..=last).collect::<Vec<_>>());
        assert_eq!(first(3), [1, 2, 3]);
        assert_eq!(first(12).len(), 12);
        assert_eq!(first(13), [2, 4, 6, 8, 10, 12, 13]);
        assert_eq!(first(30), [5, 10, 15, 20, 25, 30]);
        assert_eq!(first(100), [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert_eq!(first(300), PAPER_EPOCHS);
        assert_eq!(first(310), [10, 30, 50, 70, 90, 120, 150, 200, 300, 310]);
        assert_eq!(columns(&[]), Vec::<u32>::new());
        // Evaluated every 7 epochs: only these epochs can be columns, and the last one is included.
        let sevens: Vec<u32> = (1..=30).map(|index| index * 7).collect();
        let chosen = columns(&sevens);
        assert_eq!(chosen.len(), MAX_COLUMNS);
        assert_eq!(chosen.last(), Some(&210));
        assert!(chosen.iter().all(|epoch| sevens.contains(epoch)));
        // Evaluated every 10.
        let tens: Vec<u32> = (1..=20).map(|index| index * 10).collect();
        assert_eq!(
            columns(&tens),
            [20, 40, 60, 80, 100, 120, 140, 160, 180, 200]
        );
    }
}
