//! How the work is laid out on a cube: all of it is known when a kernel is compiled.

use cubecl::ir::HardwareProperties;

use crate::kernels::team::Sharing;

/// Units of a cube, where the device has as many.
const UNITS: usize = 128;

/// Numbers per vector, at most: 16 bytes of f32.
const WIDTH: usize = 4;

/// Shared memory of a cube, in bytes, where that is enough for a row.
const SHARED: usize = 48 << 10;

/// Banks of shared memory: words that are this far from each other cannot be read at once.
const BANKS: usize = 32;

/// Buffers of a kernel, at most.
const BINDINGS: u32 = 9;

/// Sizes of a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub keys: usize,
    pub head_dim: usize,
    pub value_dim: usize,
}

/// What a cube does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    /// Units of a cube, a power of two.
    pub units: usize,
    /// Rows of a cube, a power of two: queries, or keys where the gradients of keys are made.
    pub rows: usize,
    /// Vectors of a query.
    pub head: usize,
    /// Vectors of a value.
    pub value: usize,
    /// Numbers from a row of scores or weights to the next.
    pub capacity: usize,
    /// Not all keys are kept.
    pub select: bool,
}

impl Plan {
    /// A cube of the forward pass: it holds whole rows of scores, as the selection looks at them many
    /// times. `None` where the device cannot.
    pub(super) fn forward(
        hardware: &HardwareProperties,
        sizes: Sizes,
        select: bool,
    ) -> Option<Self> {
        // A row, what aligns it, the query, its sum.
        let of_a_row = sizes.keys + BANKS + sizes.head_dim + 1;
        let plan = Self::with(hardware, sizes, select, of_a_row, 16)?;
        // Rows begin so that the teams of a plane never wait for the same bank.
        let past = (sizes.keys + BANKS - plan.team() % BANKS) % BANKS;
        Some(Self {
            capacity: sizes.keys + (BANKS - past) % BANKS,
            ..plan
        })
    }

    /// A cube of the backward pass, which goes through the scores tile by tile.
    pub(super) fn backward(
        hardware: &HardwareProperties,
        sizes: Sizes,
        select: bool,
    ) -> Option<Self> {
        // Two weights of each pair, and two vectors.
        let capacity = 2 * units(hardware);
        let of_a_row = capacity + sizes.head_dim + sizes.value_dim + 1;
        let plan = Self::with(hardware, sizes, select, of_a_row, 8)?;
        Some(Self { capacity, ..plan })
    }

    fn with(
        hardware: &HardwareProperties,
        sizes: Sizes,
        select: bool,
        of_a_row: usize,
        most: usize,
    ) -> Option<Self> {
        let units = units(hardware);
        let [head, value] = [sizes.head_dim, sizes.value_dim].map(|dim| dim / width(dim));
        if units < 2 || head.min(value).min(sizes.keys) == 0 || head.max(value) > units {
            return None;
        }
        if hardware.max_bindings < BINDINGS {
            return None;
        }
        // What the units tell each other: words, and the parts of two sums.
        let of_the_units = units * (2 + 2 * WIDTH);
        let room = |bytes: usize| {
            let free = (bytes / size_of::<f32>()).checked_sub(of_the_units)?;
            (free / of_a_row).min(most).min(units).checked_ilog2()
        };
        let most_bytes = hardware.max_shared_memory_size;
        // More only where not even one row fits: the cubes of a core share its memory.
        let rows = 1 << room(most_bytes.min(SHARED)).or_else(|| room(most_bytes))?;
        Some(Self {
            units,
            rows,
            head,
            value,
            capacity: 0,
            select,
        })
    }

    /// Units that share a row where each looks at some of its keys.
    pub(super) fn team(self) -> usize {
        self.units / self.rows
    }

    pub(super) fn sharing(self) -> Sharing {
        Sharing::Cube {
            units: self.units,
            size: self.team(),
        }
    }

    /// Where `kinds` kinds of weights lie, after `first` others.
    pub(super) fn layout(self, first: usize, kinds: usize) -> Layout {
        Layout {
            stride: self.capacity,
            apart: self.units,
            first,
            kinds,
        }
    }

    /// Who sums which part of the results, whose rows have as many vectors as `columns`.
    pub(super) fn spread(self, columns: usize) -> Spread {
        let groups = self.units / columns;
        let groups_of_rows = (1 << groups.ilog2()).min(self.rows);
        Spread {
            columns,
            groups: groups_of_rows,
            slices: groups / groups_of_rows,
            rows: self.rows / groups_of_rows,
        }
    }
}

/// Weights in shared memory: those of a row and a kind next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Layout {
    /// Numbers from a row to the next.
    pub stride: usize,
    /// Numbers from a kind to the next.
    pub apart: usize,
    /// The first kind.
    pub first: usize,
    /// How many.
    pub kinds: usize,
}

/// A unit sums one column of some rows, over some of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spread {
    /// Vectors of a row.
    pub columns: usize,
    /// Groups of rows.
    pub groups: usize,
    /// Units that share a sum; where there are more than one, a group is one row.
    pub slices: usize,
    /// Rows of a group.
    pub rows: usize,
}

/// The largest power of two that there are units for.
fn units(hardware: &HardwareProperties) -> usize {
    let most = hardware.max_units_per_cube.min(hardware.max_cube_dim.0);
    most.checked_ilog2().map_or(0, |log| 1 << log).min(UNITS)
}

/// Numbers per vector of rows of this length.
pub(super) fn width(dim: usize) -> usize {
    [WIDTH, 2, 1]
        .into_iter()
        .find(|width| dim.is_multiple_of(*width))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn hardware(shared: usize, units: u32) -> HardwareProperties {
        HardwareProperties {
            load_width: 128,
            vector_register_count: None,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 32,
            max_shared_memory_size: shared,
            max_cube_count: (65_535, 65_535, 65_535),
            max_units_per_cube: units,
            max_cube_dim: (units, units, 64),
            num_streaming_multiprocessors: None,
            num_cpu_cores: None,
            last_level_cache_size: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            max_vector_size: 4,
            cube_mma_reserved_shared_memory: 0,
        }
    }

    fn sizes(keys: usize, dim: usize) -> Sizes {
        Sizes {
            keys,
            head_dim: dim,
            value_dim: dim,
        }
    }

    /// 32 KiB are 8192 numbers; 1280 of them are for what 128 units tell each other. A row of 197
    /// scores takes 294 with its query and the rest.
    #[test]
    fn rows_are_as_many_as_fit() {
        let forward = |shared, keys| Plan::forward(&hardware(shared, 1024), sizes(keys, 64), true);
        assert_eq!(forward(32 << 10, 197).unwrap().rows, 16);
        assert_eq!(forward(16 << 10, 197).unwrap().rows, 8);
        assert_eq!(forward(32 << 10, 3136).unwrap().rows, 2);
        assert_eq!(forward(32 << 10, 6815).unwrap().rows, 1);
        assert_eq!(forward(32 << 10, 6816), None);
        // A core with much memory is shared, unless a row needs it.
        assert_eq!(forward(227 << 10, 3136).unwrap().rows, 2);
        assert_eq!(forward(227 << 10, 16_384).unwrap().rows, 2);
        // The backward pass does not hold rows.
        let backward = Plan::backward(&hardware(32 << 10, 1024), sizes(1 << 20, 64), true);
        assert_eq!(backward.unwrap().rows, 8);
    }

    /// The units of a plane look at neighbours in a few rows.
    #[test]
    fn the_rows_of_a_plane_lie_in_different_banks() {
        for keys in [1, 31, 32, 196, 197, 256, 784, 3136] {
            let plan = Plan::forward(&hardware(48 << 10, 1024), sizes(keys, 64), true).unwrap();
            assert!((keys..keys + 32).contains(&plan.capacity));
            let team = plan.team();
            let bank = |unit: usize| (unit / team * plan.capacity + unit % team) % 32;
            let banks: std::collections::BTreeSet<usize> = (0..32).map(bank).collect();
            assert_eq!(banks.len(), 32, "{keys} keys, {} rows", plan.rows);
        }
    }

    #[test]
    fn every_sum_has_one_unit_for_each_of_its_slices() {
        for (units, dim) in [(128, 64), (128, 33), (128, 127), (64, 48), (256, 6), (2, 1)] {
            for shared in [4 << 10, 16 << 10, 64 << 10] {
                let Some(plan) = Plan::forward(&hardware(shared, units), sizes(50, dim), true)
                else {
                    continue;
                };
                let columns = dim / width(dim);
                let spread = plan.spread(columns);
                assert_eq!(spread.groups * spread.rows, plan.rows);
                assert!(spread.columns * spread.groups * spread.slices <= plan.units);
                assert!(spread.slices == 1 || spread.rows == 1);
                assert_eq!(plan.team() * plan.rows, plan.units);
            }
        }
    }

    #[test]
    fn vectors_longer_than_a_cube_are_refused() {
        assert_eq!(
            Plan::forward(&hardware(64 << 10, 64), sizes(9, 65), false),
            None
        );
        assert!(Plan::forward(&hardware(64 << 10, 64), sizes(9, 256), false).is_some());
        assert_eq!(
            Plan::forward(&hardware(64 << 10, 1), sizes(9, 1), false),
            None
        );
    }
}
