#![expect(clippy::unwrap_used, reason = "tests")]

use burn::tensor::Device;
use kvt_testing::ranks::{self, Rank};

use super::*;

#[derive(Debug)]
struct Threads(Rank);

impl Collective for Threads {
    fn rank(&self) -> usize {
        self.0.rank
    }

    fn size(&self) -> usize {
        self.0.size
    }

    fn sum(&self, values: &mut [f32]) {
        self.0.sum(values);
    }
}

fn in_threads<R: Send>(size: usize, work: impl Fn(Group) -> R + Sync) -> Vec<R> {
    ranks::in_threads(size, |rank| work(Group::new(Arc::new(Threads(rank)), true)))
}

fn values(x: Tensor<1>) -> Vec<f32> {
    x.into_data().try_to_vec().unwrap()
}

/// With `s = sum of x`, the loss of process `r` is `(r + 1) s^2`: the gradient of the sum of all losses with respect to
/// any `x` is `2 s (1 + 2 + 3)`.
#[test]
fn sums_and_their_gradients_by_hand() {
    let found = in_threads(3, |group| {
        let device = Device::flex().autodiff();
        let own = group.rank() as f32;
        let x = Tensor::<1>::from_data([own + 1.0, -own], &device).require_grad();
        let sum = rank_sum(x.clone(), &group);
        let loss = sum.clone().square() * (own + 1.0);
        let gradients = loss.sum().backward();
        (values(sum.inner()), values(x.grad(&gradients).unwrap()))
    });
    for (sum, gradient) in found {
        assert_eq!(sum, [6.0, -3.0]);
        assert_eq!(gradient, [72.0, -36.0]);
    }
}

#[test]
fn a_group_is_this_threads_and_ends_with_the_work() {
    assert!(current_group().is_none());
    in_threads(2, |group| {
        let rank = group.rank();
        with_group(Some(group), || {
            assert_eq!(current_group().unwrap().rank(), rank);
            with_group(None, || assert!(current_group().is_none()));
            assert_eq!(current_group().unwrap().rank(), rank);
        });
        assert!(current_group().is_none());
    });
}
