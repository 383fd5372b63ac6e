#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{Cursor, Write as _};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;
use crate::weights::file;

/// A tensor as a pickle describes it: a view of a storage, in numbers of 32 bits.
struct View<'a> {
    name: &'a str,
    storage: &'a str,
    /// Numbers of the storage.
    numbers: u64,
    shape: &'a [u64],
    stride: &'a [u64],
}

/// A view that covers its own storage in order.
fn whole<'a>(name: &'a str, storage: &'a str, shape: &'a [u64], stride: &'a [u64]) -> View<'a> {
    View {
        name,
        storage,
        numbers: shape.iter().product(),
        shape,
        stride,
    }
}

fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [b"X", &length[..], text.as_bytes()].concat()
}

/// `LONG1`: at most 2^63 - 1.
fn int(number: u64) -> Vec<u8> {
    [&[0x8a, 8][..], &number.to_le_bytes()].concat()
}

fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

fn ints(numbers: &[u64]) -> Vec<u8> {
    tuple(
        &numbers
            .iter()
            .map(|number| int(*number))
            .collect::<Vec<_>>(),
    )
}

/// The pickle of a state dict, as `torch.save` writes it.
fn pickle(views: &[View<'_>]) -> Vec<u8> {
    let mut bytes = b"\x80\x02}(".to_vec();
    for view in views {
        let storage = tuple(&[
            text("storage"),
            b"ctorch\nFloatStorage\n".to_vec(),
            text(view.storage),
            text("cpu"),
            int(view.numbers),
        ]);
        let arguments = tuple(&[
            [storage, b"Q".to_vec()].concat(),
            int(0),
            ints(view.shape),
            ints(view.stride),
            vec![0x89],
            b"ccollections\nOrderedDict\n)R".to_vec(),
        ]);
        bytes.extend(text(view.name));
        bytes.extend(b"ctorch._utils\n_rebuild_tensor_v2\n");
        bytes.extend(arguments);
        bytes.extend(b"R");
    }
    bytes.extend(b"u.");
    bytes
}

/// A checkpoint as `torch.save` has written it since version 1.6.
fn archive(views: &[View<'_>], storages: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    zip.start_file("archive/data.pkl", stored).unwrap();
    zip.write_all(&pickle(views)).unwrap();
    for (name, bytes) in storages {
        let options = stored.compression_method(method);
        zip.start_file(format!("archive/data/{name}"), options)
            .unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The same, as it was written before version 1.6.
fn legacy(views: &[View<'_>], storages: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.".to_vec();
    bytes.extend(b"\x80\x02M\xe9\x03.");
    bytes.extend(b"\x80\x02}(");
    bytes.extend(text("little_endian"));
    bytes.extend(b"\x88u.");
    bytes.extend(pickle(views));
    bytes.extend(b"\x80\x02](");
    storages
        .iter()
        .for_each(|(name, _)| bytes.extend(text(name)));
    bytes.extend(b"e.");
    for (_, storage) in storages {
        bytes.extend((storage.len() as u64 / 4).to_le_bytes());
        bytes.extend(*storage);
    }
    bytes
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn read_bytes(bytes: &[u8]) -> Result<StateDict, WeightsError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pth");
    fs_err::write(&path, bytes).unwrap();
    file::read(&path)
}

fn error(bytes: &[u8]) -> WeightsError {
    let error = read_bytes(bytes).unwrap_err();
    assert!(error.to_string().contains("w.pth"), "{error}");
    error
}

#[test]
fn views_of_one_storage_are_read() {
    let numbers = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let transposed = View {
        numbers: 6,
        ..whole("b", "0", &[3, 2], &[1, 3])
    };
    let views = [whole("a", "0", &[2, 3], &[3, 1]), transposed];
    let storages = [("0", &numbers[..])];
    for bytes in [
        archive(&views, &storages, CompressionMethod::Stored),
        legacy(&views, &storages),
    ] {
        let read = read_bytes(&bytes).unwrap();
        let values = |name| read.get(name).unwrap().try_to_vec::<f32>().unwrap();
        assert_eq!(values("a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(values("b"), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}

/// The shortest way to a large tensor: one number, repeated. Eight of these claim 80 GiB.
#[test]
fn a_view_that_repeats_its_numbers_is_refused() {
    let one = floats(&[1.0]);
    let repeated = |name, shape, stride| View {
        numbers: 1,
        ..whole(name, "0", shape, stride)
    };
    let huge = [2, 5, 1 << 20, 256];
    let views = [
        repeated("a", &huge, &[0; 4]),
        repeated("b", &[50_000], &[0]),
    ];
    let storages = [("0", &one[..])];
    for views in [&views[..1], &views[1..]] {
        for bytes in [
            archive(views, &storages, CompressionMethod::Stored),
            legacy(views, &storages),
        ] {
            let error = error(&bytes);
            let WeightsError::Tensor { name, reason, .. } = &error else {
                unreachable!("{error}");
            };
            assert_eq!(name, views[0].name);
            let claimed = 4 * views[0].shape.iter().product::<u64>();
            assert!(reason.contains(&format!("{claimed} bytes")), "{reason}");
            assert!(reason.contains(&bytes.len().to_string()), "{reason}");
        }
    }
}

/// Each is smaller than the file, but all together are much larger.
#[test]
fn a_storage_under_hundreds_of_names_is_refused() {
    let numbers = floats(&[0.5; 20_000]);
    let names: Vec<String> = (0..400).map(|i| format!("w{i}")).collect();
    let views: Vec<View<'_>> = names
        .iter()
        .map(|name| whole(name, "0", &[20_000], &[1]))
        .collect();
    let storages = [("0", &numbers[..])];
    let bytes = archive(&views, &storages, CompressionMethod::Stored);
    assert!(matches!(
        error(&bytes),
        WeightsError::Claims { claimed: 32_000_000, size, .. } if size == bytes.len() as u64
    ));
    // A few names for one storage are a valid checkpoint.
    let few = archive(&views[..8], &storages, CompressionMethod::Stored);
    assert_eq!(read_bytes(&few).unwrap().len(), 8);
}

#[test]
fn an_archive_that_unpacks_to_more_than_it_is() {
    let zeros = vec![0; 20 << 20];
    let views = [whole("a", "0", &[5 << 20], &[1])];
    let bytes = archive(&views, &[("0", &zeros)], CompressionMethod::Deflated);
    let size = bytes.len() as u64;
    assert!(size < 1 << 20);
    let error = error(&bytes);
    let WeightsError::Packed {
        unpacked,
        size: found,
        ..
    } = error
    else {
        unreachable!("{error}");
    };
    assert!(unpacked > 20 << 20, "{unpacked}");
    assert_eq!(found, size);
}

/// The tar archive of PyTorch before version 0.1.10 may describe holes: a sparse entry.
#[test]
fn a_sparse_entry_counts_in_full() {
    let mut header = tar::Header::new_gnu();
    header.set_path("storages").unwrap();
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(0);
    let gnu = header.as_gnu_mut().unwrap();
    // An empty block at the end of 1 GiB.
    gnu.realsize.copy_from_slice(b"10000000000\0");
    gnu.sparse[0].offset.copy_from_slice(b"10000000000\0");
    gnu.sparse[0].numbytes.copy_from_slice(b"00000000000\0");
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend([0; 1024]);
    assert!(matches!(
        error(&bytes),
        WeightsError::Packed { unpacked, .. } if unpacked == 1 << 30
    ));
}

#[test]
fn storages_that_are_not_there() {
    let claims = [whole("a", "0", &[1 << 30], &[1])];
    let one = floats(&[1.0]);
    for bytes in [
        archive(&claims, &[("0", &one)], CompressionMethod::Stored),
        archive(&claims, &[], CompressionMethod::Stored),
        legacy(&claims, &[("0", &one)]),
        legacy(&claims, &[]),
    ] {
        error(&bytes);
    }
    let small = [whole("a", "0", &[2], &[1])];
    for bytes in [
        archive(&small, &[("0", &one)], CompressionMethod::Stored),
        legacy(&small, &[("0", &one)]),
    ] {
        error(&bytes);
    }
}
