#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::{Device, Tensor, TensorData};

use super::*;

/// Maps whose values are 0, 1, 2, ...
fn count_up(shape: [usize; 4]) -> Tensor<4> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|i| i as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), &Device::flex())
}

fn values(tensor: Tensor<4>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

#[test]
fn a_map_is_cut_row_by_row() {
    let windows = Windows::new(4, 2, None).cut(count_up([1, 4, 4, 1]));
    assert_eq!(windows.dims(), [1, 4, 4, 1]);
    assert_eq!(
        values(windows),
        [
            0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0, 12.0, 13.0, 10.0, 11.0, 14.0, 15.0
        ]
    );
}

#[test]
fn a_shift_rolls_the_map_up_and_to_the_left() {
    let windows = Windows::new(4, 2, None).shifted();
    assert_eq!(windows.shift(), [1, 1]);
    // Rolled by one, the map is 5 6 7 4 / 9 10 11 8 / 13 14 15 12 / 1 2 3 0.
    assert_eq!(
        values(windows.cut(count_up([1, 4, 4, 1]))),
        [
            5.0, 6.0, 9.0, 10.0, 7.0, 4.0, 11.0, 8.0, 13.0, 14.0, 1.0, 2.0, 15.0, 12.0, 3.0, 0.0
        ]
    );
}

#[test]
fn a_map_is_padded_at_its_end_after_the_roll() {
    let windows = Windows::new(3, 2, None).shifted();
    // Rolled, the map is 4 5 3 / 7 8 6 / 1 2 0.
    assert_eq!(
        values(windows.cut(count_up([1, 3, 3, 1]))),
        [
            4.0, 5.0, 7.0, 8.0, 3.0, 0.0, 6.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        ]
    );
}

#[test]
fn joining_undoes_cutting() {
    for (map, window_size) in [
        (8, 4),
        (9, 3),
        (10, 4),
        (5, 4),
        (4, 7),
        (6, 1),
        (1, 1),
        (7, 5),
    ] {
        let plain = Windows::new(map, window_size, None);
        for windows in [plain, plain.shifted()] {
            let x = count_up([2, map, map, 3]);
            let cut = windows.cut(x.clone());
            assert_eq!(cut.dims(), [2, windows.count(), windows.area(), 3]);
            assert_eq!(values(windows.join(cut)), values(x), "{windows:?}");
        }
    }
}

#[test]
fn a_map_that_is_not_square_is_cut_and_joined() {
    // Two rows fit into one window, so the map is not rolled up. Rolled to the left and padded, it is
    // 1 2 3 4 0 . / 6 7 8 9 5 . with a window for every two columns.
    let windows = Windows::new(8, 2, None).shifted().on([2, 5]);
    assert_eq!((windows.shift(), windows.count()), ([0, 1], 3));
    let x = count_up([1, 2, 5, 1]);
    assert_eq!(
        values(windows.cut(x.clone())),
        [1.0, 2.0, 6.0, 7.0, 3.0, 4.0, 8.0, 9.0, 0.0, 0.0, 5.0, 0.0]
    );
    assert_eq!(values(windows.join(windows.cut(x.clone()))), values(x));
    // The last window contains the first column of the map, which was rolled in, and the padding. The window before
    // it ends with the last columns of the map, and has no border.
    let (o, x) = (0.0, -100.0);
    let apart = [[o, x, o, x], [x, o, x, o], [o, x, o, x], [x, o, x, o]];
    let mask = windows.shift_mask().unwrap();
    assert_eq!(mask, [[[o; 4]; 4], [[o; 4]; 4], apart].concat().concat());
}

#[test]
fn a_map_that_fits_is_one_window_and_stays() {
    for map in [1, 3, 7] {
        let windows = Windows::new(map, 7, None).shifted();
        assert_eq!((windows.side, windows.shift()), (map, [0, 0]));
        assert_eq!((windows.count(), windows.shift_mask()), (1, None));
    }
    let windows = Windows::new(8, 7, None).shifted();
    let found = (windows.side, windows.shift(), windows.count());
    assert_eq!(found, (7, [3, 3], 4));
    assert_eq!(Windows::new(8, 7, None).shift_mask(), None);
}

#[test]
fn the_mask_of_a_small_map_by_hand() {
    // In the rolled map, the third row and column were the last of the map before, and the fourth were its first.
    let mask = Windows::new(4, 2, None).shifted().shift_mask().unwrap();
    let (o, x) = (0.0, -100.0);
    let whole = [[o; 4]; 4];
    let left_and_right = [[o, x, o, x], [x, o, x, o], [o, x, o, x], [x, o, x, o]];
    let above_and_below = [[o, o, x, x], [o, o, x, x], [x, x, o, o], [x, x, o, o]];
    let apart = [[o, x, x, x], [x, o, x, x], [x, x, o, x], [x, x, x, o]];
    let expected = [whole, left_and_right, above_and_below, apart];
    assert_eq!(mask, expected.concat().concat());
}

#[test]
fn the_mask_of_a_padded_map_follows_the_padded_size() {
    // Padded to 4 x 4, the regions equal those of a map of that size.
    let padded = Windows::new(3, 2, None).shifted().shift_mask();
    assert_eq!(padded, Windows::new(4, 2, None).shifted().shift_mask());
}

#[test]
fn relative_positions_by_hand() {
    // Two by two tokens: rows of a table of 3 x 3 offsets, the query's place minus the key's.
    let expected = [[4, 3, 1, 0], [5, 4, 2, 1], [7, 6, 4, 3], [8, 7, 5, 4]];
    assert_eq!(
        Windows::new(4, 2, None).relative_position_index(),
        expected.concat()
    );
    assert_eq!(Windows::new(4, 2, None).relative_positions(), 9);
    assert_eq!(Windows::new(4, 1, None).relative_position_index(), [0]);
}

#[test]
fn a_dense_map_is_padded_before_the_roll() {
    let windows = Windows::new(3, 2, Some(WindowPadding::Seen)).shifted();
    // Padded, the map is 0 1 2 . / 3 4 5 . / 6 7 8 . / . . . ., and rolled 4 5 . 3 / 7 8 . 6 / . . . . / 1 2 . 0.
    assert_eq!(
        values(windows.cut(count_up([1, 3, 3, 1]))),
        [
            4.0, 5.0, 7.0, 8.0, 0.0, 3.0, 0.0, 6.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0
        ]
    );
    // The regions are those of a map of the padded size.
    assert_eq!(
        windows.shift_mask(),
        Windows::new(4, 2, None).shifted().shift_mask()
    );
}

#[test]
fn a_dense_window_is_never_smaller_and_always_shifted() {
    for map in [1, 3, 7, 9] {
        let windows = Windows::new(map, 7, Some(WindowPadding::Seen)).shifted();
        assert_eq!((windows.side, windows.shift()), (7, [3, 3]));
        assert_eq!(windows.area(), 49);
        assert!(windows.shift_mask().is_some());
    }
    let windows = Windows::new(9, 7, Some(WindowPadding::Seen));
    assert_eq!((windows.shift(), windows.shift_mask()), ([0, 0], None));
}

#[test]
fn joining_undoes_cutting_of_dense_maps() {
    for (map, window_size) in [([8, 8], 4), ([9, 3], 4), ([1, 2], 7), ([10, 7], 3)] {
        let plain = Windows::new(1, window_size, Some(WindowPadding::Seen)).on(map);
        for windows in [plain, plain.shifted()] {
            let x = count_up([2, map[0], map[1], 3]);
            let cut = windows.cut(x.clone());
            assert_eq!(cut.dims(), [2, windows.count(), windows.area(), 3]);
            assert_eq!(values(windows.join(cut)), values(x), "{windows:?}");
        }
    }
}

/// Keys that are hidden hold the zeros of the padding, and no token is hidden from itself.
#[test]
fn padding_is_hidden_where_it_is_cut() {
    for map in [[3, 3], [5, 4], [4, 7], [1, 1]] {
        let plain = Windows::new(1, 4, Some(WindowPadding::Hidden)).on(map);
        for windows in [plain, plain.shifted()] {
            let ones = count_up([1, map[0], map[1], 1]) * 0.0 + 1.0;
            let is_token = values(windows.cut(ones));
            let hidden = windows.hidden_padding().unwrap();
            let area = windows.area();
            for (place, hidden) in hidden.iter().enumerate() {
                let (query, key) = (place / area, place % area);
                let key = query / area * area + key;
                assert_eq!(*hidden, is_token[key] == 0.0 && key != query, "{windows:?}");
            }
        }
    }
    let whole = Windows::new(8, 4, Some(WindowPadding::Hidden));
    assert_eq!(whole.hidden_padding(), None);
    let seen = Windows::new(7, 4, Some(WindowPadding::Seen));
    assert_eq!(seen.hidden_padding(), None);
}
