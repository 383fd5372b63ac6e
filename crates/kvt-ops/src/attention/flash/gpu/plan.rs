//! The division of the work within a workgroup, known when a kernel is compiled.

use cubecl::ir::HardwareProperties;

use crate::gpu::row_group::RowStrategy;

/// Threads per workgroup, if the device supports as many.
const UNITS: usize = 128;

/// Maximum number of elements per vector: 16 bytes of f32.
const WIDTH: usize = 4;

/// Shared memory per workgroup in bytes, if that is enough for a row.
const SHARED: usize = 48 << 10;

/// Banks of shared memory: words whose distance is a multiple of this conflict.
const BANKS: usize = 32;

/// Bindings of the kernel with the most.
const BINDINGS: u32 = 9;

/// Sizes of a problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub keys: usize,
    pub head_dim: usize,
    pub value_dim: usize,
}

/// The work of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FlashPlan {
    /// Threads per workgroup, a power of two.
    pub units: usize,
    /// Rows per workgroup, a power of two: queries, or keys in the kernel for the gradients of keys.
    pub rows: usize,
    /// Vectors per query or key.
    pub head: usize,
    /// Vectors per value.
    pub value: usize,
    /// Distance between rows of scores or weights, in elements. Kinds of weights are as far apart as there are threads.
    pub capacity: usize,
    /// Whether keys are dropped.
    pub select: bool,
}

impl FlashPlan {
    /// For the forward pass, which holds whole rows of scores, since the selection reads them many times. `None` if the
    /// device does not support it.
    pub(super) fn forward(
        hardware: &HardwareProperties,
        sizes: Sizes,
        select: bool,
    ) -> Option<Self> {
        // A row, its alignment, its query and its sum.
        let of_a_row = sizes.keys + BANKS + sizes.head_dim + 1;
        let plan = Self::with(hardware, sizes, select, of_a_row, 16)?;
        // Row starts are placed in banks such that the groups of a subgroup never conflict.
        let past = (sizes.keys + BANKS - plan.group_size() % BANKS) % BANKS;
        Some(Self {
            capacity: sizes.keys + (BANKS - past) % BANKS,
            ..plan
        })
    }

    /// For the backward pass, which goes through the scores tile by tile. `None` if the device does not support it.
    pub(super) fn backward(
        hardware: &HardwareProperties,
        sizes: Sizes,
        select: bool,
    ) -> Option<Self> {
        // Two weights per pair, and two vectors per row.
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
        // Exchange between threads: words, and the partial results of two sums.
        let of_the_units = units * (2 + 2 * WIDTH);
        let room = |bytes: usize| {
            let free = (bytes / size_of::<f32>()).checked_sub(of_the_units)?;
            (free / of_a_row).min(most).min(units).checked_ilog2()
        };
        let most_bytes = hardware.max_shared_memory_size;
        // More shared memory only if not even one row fits otherwise: the workgroups on a core share it.
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

    /// Threads per row group. Each thread reads some keys of the row.
    pub(super) fn group_size(self) -> usize {
        self.units / self.rows
    }

    pub(super) fn row_strategy(self) -> RowStrategy {
        RowStrategy::Cube {
            units: self.units,
            size: self.group_size(),
        }
    }

    /// Which thread sums which part of a result with rows of `columns` vectors.
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

/// The division of sums among threads: a thread sums one column of a group of rows, over a slice of the pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spread {
    /// Vectors per row.
    pub columns: usize,
    /// Groups of rows.
    pub groups: usize,
    /// Threads that share a sum. If there is more than one, a group is one row.
    pub slices: usize,
    /// Rows per group.
    pub rows: usize,
}

/// Threads per workgroup: a power of two.
fn units(hardware: &HardwareProperties) -> usize {
    let most = hardware.max_units_per_cube.min(hardware.max_cube_dim.0);
    most.checked_ilog2().map_or(0, |log| 1 << log).min(UNITS)
}

/// Elements per vector, for rows of `dim` elements.
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

    /// 32 KiB are 8192 numbers. 128 threads need 1280 of them to exchange results. A row of 197 scores takes 294,
    /// including its query, alignment and sum.
    #[test]
    fn rows_are_as_many_as_fit() {
        let forward =
            |shared, keys| FlashPlan::forward(&hardware(shared, 1024), sizes(keys, 64), true);
        assert_eq!(forward(32 << 10, 197).unwrap().rows, 16);
        assert_eq!(forward(16 << 10, 197).unwrap().rows, 8);
        assert_eq!(forward(32 << 10, 3136).unwrap().rows, 2);
        assert_eq!(forward(32 << 10, 6815).unwrap().rows, 1);
        assert_eq!(forward(32 << 10, 6816), None);
        // A workgroup takes at most `SHARED` of the memory of a core, unless a row does not fit in it.
        assert_eq!(forward(227 << 10, 3136).unwrap().rows, 2);
        assert_eq!(forward(227 << 10, 16_384).unwrap().rows, 2);
        // The backward pass does not hold whole rows.
        let backward = FlashPlan::backward(&hardware(32 << 10, 1024), sizes(1 << 20, 64), true);
        assert_eq!(backward.unwrap().rows, 8);
    }

    /// The threads of a subgroup read neighbours in a few rows.
    #[test]
    fn the_rows_of_a_plane_lie_in_different_banks() {
        for keys in [1, 31, 32, 196, 197, 256, 784, 3136] {
            let plan =
                FlashPlan::forward(&hardware(48 << 10, 1024), sizes(keys, 64), true).unwrap();
            assert!((keys..keys + 32).contains(&plan.capacity));
            let group = plan.group_size();
            let bank = |unit: usize| (unit / group * plan.capacity + unit % group) % 32;
            let banks: std::collections::BTreeSet<usize> = (0..32).map(bank).collect();
            assert_eq!(banks.len(), 32, "{keys} keys, {} rows", plan.rows);
        }
    }

    #[test]
    fn every_sum_has_one_unit_for_each_of_its_slices() {
        for (units, dim) in [(128, 64), (128, 33), (128, 127), (64, 48), (256, 6), (2, 1)] {
            for shared in [4 << 10, 16 << 10, 64 << 10] {
                let Some(plan) = FlashPlan::forward(&hardware(shared, units), sizes(50, dim), true)
                else {
                    continue;
                };
                let columns = dim / width(dim);
                let spread = plan.spread(columns);
                assert_eq!(spread.groups * spread.rows, plan.rows);
                assert!(spread.columns * spread.groups * spread.slices <= plan.units);
                assert!(spread.slices == 1 || spread.rows == 1);
                assert_eq!(plan.group_size() * plan.rows, plan.units);
            }
        }
    }

    #[test]
    fn vectors_longer_than_a_cube_are_refused() {
        assert_eq!(
            FlashPlan::forward(&hardware(64 << 10, 64), sizes(9, 65), false),
            None
        );
        assert!(FlashPlan::forward(&hardware(64 << 10, 64), sizes(9, 256), false).is_some());
        assert_eq!(
            FlashPlan::forward(&hardware(64 << 10, 1), sizes(9, 1), false),
            None
        );
    }
}
