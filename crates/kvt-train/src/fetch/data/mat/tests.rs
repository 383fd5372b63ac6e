#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

/// Written by SciPy 1.17.1, without and with `do_compression=True`:
///
/// ```python
/// scipy.io.savemat(file, {"labels": np.array([[77, 1, 102, 40, 1]], dtype=np.uint8), "trnid": np.array([[3.0, 1.0]]),
///     "valid": np.array([[4, 300]], dtype=np.int16), "ok": np.array([[2]], dtype=np.uint16)})
/// ```
const FILES: [&[u8]; 2] = [
    include_bytes!("plain.mat"),
    include_bytes!("compressed.mat"),
];

#[test]
fn scipys_files_are_read() {
    let expected = [
        ("labels", vec![77, 1, 102, 40, 1]),
        ("ok", vec![2]),
        ("trnid", vec![3, 1]),
        ("valid", vec![4, 300]),
    ];
    for file in FILES {
        let found: Vec<_> = arrays(file).unwrap().into_iter().collect();
        assert_eq!(
            found,
            expected
                .clone()
                .map(|(name, numbers)| (name.to_owned(), numbers))
        );
    }
}

/// Every file that is cut off somewhere, or has one other byte, is read or refused, and no such file gives more numbers than it
/// could hold.
#[test]
fn damaged_files_do_no_harm() {
    for file in FILES {
        for end in 0..file.len() {
            let numbers =
                arrays(&file[..end]).map_or(0, |arrays| arrays.values().flatten().count());
            assert!(numbers <= 10);
        }
        for at in HEADER..file.len() {
            for value in [0, 1, 15, 0x7f, 0x80, 0xff] {
                let mut other = file.to_vec();
                other[at] = value;
                let numbers = arrays(&other).map_or(0, |arrays| arrays.values().flatten().count());
                assert!(numbers <= LARGEST as usize);
            }
        }
    }
}

#[test]
fn only_whole_numbers_are_numbers_of_photos() {
    let doubles = |numbers: [f64; 2]| {
        let bytes: Vec<u8> = numbers.into_iter().flat_map(f64::to_le_bytes).collect();
        whole(DOUBLE, &bytes)
    };
    assert_eq!(doubles([0.0, 4_294_967_295.0]), Some(vec![0, u32::MAX]));
    for other in [-1.0, 0.5, f64::NAN, f64::INFINITY, 4_294_967_296.0] {
        assert_eq!(doubles([1.0, other]), None, "{other}");
    }
    assert_eq!(whole(INT16, &[0xff, 0xff]), None);
    assert_eq!(whole(UINT16, &[1, 0, 2]), None);
}
