use super::*;
use crate::attention::fused::blocks::rows::STATE;
use crate::attention::fused::blocks::{HeadLayout, Heads, Term, Terms};

fn problem<'a>(kept: usize, [dim, value_dim]: [usize; 2], terms: Terms<'a>) -> Problem<'a> {
    let heads = |dim| Heads {
        data: &[],
        layout: HeadLayout {
            offset: 0,
            image_stride: 0,
            head_stride: 0,
            token_stride: dim,
            dim,
        },
    };
    Problem {
        means: None,
        images: 1,
        heads: 1,
        heads_folded_into_images: 1,
        queries: 1,
        keys: 100,
        q: heads(dim),
        k: heads(dim),
        v: heads(value_dim),
        scale: 1.0,
        kept,
        terms,
    }
}

fn term<T>(data: &[T]) -> Option<Term<'_, T>> {
    Some(Term {
        data,
        offset: 0,
        shape: [1; 4],
        strides: [0; 4],
    })
}

#[test]
fn keys_are_skipped_where_a_fifth_is_kept_and_nothing_is_added() {
    let record = |kept, dims| problem(kept, dims, Terms::default()).record();
    // 100 keys are four words.
    assert_eq!(record(20, [16, 48]), STATE + 4);
    for (kept, dims) in [(21, [16, 48]), (20, [12, 48]), (20, [16, 12])] {
        assert_eq!(record(kept, dims), STATE, "{kept} {dims:?}");
    }
    let bias = Terms {
        bias: term(&[0.0]),
        ..Terms::default()
    };
    let mask = Terms {
        mask: term(&[0]),
        ..Terms::default()
    };
    for terms in [bias, mask] {
        assert_eq!(problem(20, [16, 48], terms).record(), STATE);
    }
}
