//! Weights, images and probe of a golden file that does not store them, but describes how to draw them
//! (`scripts/reference/seeded.py`): with splitmix64, from the name of each and the seed of the file.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::TensorData;
use kvt_models::weights::{StateDict, read};
use safetensors::SafeTensors;
use serde::Deserialize;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The metadata `seeded` of a file.
#[derive(Deserialize)]
struct Seeded {
    seed: u64,
    /// Shape, center and spread of each tensor.
    tensors: BTreeMap<String, (Vec<usize>, f32, f32)>,
    /// Of all numbers, in hexadecimal.
    checksum: String,
}

/// All tensors of a golden file: those that it stores, and those that are drawn.
pub(crate) fn golden(path: &Path) -> StateDict {
    let mut tensors = read(path).unwrap();
    let bytes = fs_err::read(path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    if let Some(seeded) = header.metadata().as_ref().unwrap().get("seeded") {
        let seeded: Seeded = serde_json::from_str(seeded).unwrap();
        for (name, data) in seeded.draw() {
            assert!(tensors.get(&name).is_none(), "`{name}` is in the file");
            tensors.insert(name, data);
        }
    }
    tensors
}

impl Seeded {
    /// Every tensor, after checking that all bits equal Python's.
    fn draw(&self) -> BTreeMap<String, TensorData> {
        let draw = |(name, (shape, center, spread)): (&String, &(Vec<usize>, f32, f32))| {
            let numbers = numbers(name, self.seed, *center, *spread);
            let numbers: Vec<f32> = numbers.take(shape.iter().product()).collect();
            (name.clone(), TensorData::new(numbers, shape.clone()))
        };
        let drawn: BTreeMap<_, _> = self.tensors.iter().map(draw).collect();
        assert_eq!(checksum(drawn.values()), self.checksum);
        drawn
    }
}

/// The numbers of a tensor.
fn numbers(name: &str, seed: u64, center: f32, spread: f32) -> impl Iterator<Item = f32> {
    let start = fnv1a64(name.bytes()) ^ splitmix64(seed);
    (0..).map(move |place: u64| {
        let x = splitmix64(start.wrapping_add(place.wrapping_mul(GOLDEN)));
        let u = (x >> 40) as f64 / f64::from(1 << 23) - 1.0;
        (f64::from(center) + f64::from(spread) * u) as f32
    })
}

fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The hash FNV-1a of 64 bits.
fn fnv1a64(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn checksum<'a>(tensors: impl Iterator<Item = &'a TensorData>) -> String {
    let bytes = tensors.flat_map(|data| {
        let numbers: Vec<f32> = data.try_to_vec().unwrap();
        numbers.into_iter().flat_map(f32::to_le_bytes)
    });
    format!("{:016x}", fnv1a64(bytes))
}

/// The published values: FNV-1a of "a", and the first two numbers of splitmix64 with the seed 0.
#[test]
fn hash_and_generator_are_the_published_ones() {
    assert_eq!(fnv1a64("a".bytes()), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
    assert_eq!(splitmix64(GOLDEN), 0x6e78_9e6a_a1b9_65f4);
}

/// Names and seeds have different streams, with the specified mean and deviation.
#[test]
fn numbers_depend_on_name_and_seed() {
    let draw = |name, seed| {
        numbers(name, seed, 1.0, 0.5)
            .take(4000)
            .collect::<Vec<f32>>()
    };
    let numbers = draw("weights.norm.weight", 7);
    assert_ne!(numbers, draw("weights.norm.weight", 8));
    assert_ne!(numbers, draw("weights.norm.bias", 7));
    assert!(numbers.iter().all(|x| (0.5..=1.5).contains(x)));
    let mean = numbers.iter().sum::<f32>() / 4000.0;
    let variance = numbers.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / 4000.0;
    // Standard errors 0.0046 and 0.0012.
    assert!((mean - 1.0).abs() < 0.02, "{mean}");
    assert!((variance - 0.25 / 3.0).abs() < 0.005, "{variance}");
}

/// The change of the last bit of one number.
#[test]
fn a_checksum_sees_every_bit() {
    let tensors = [1.0f32, 2.0].map(|x| TensorData::new(vec![x, 3.0], [2]));
    let mut other = tensors.clone();
    other[1] = TensorData::new(vec![2.0, 3.0f32.next_up()], [2]);
    assert_ne!(checksum(tensors.iter()), checksum(other.iter()));
}
