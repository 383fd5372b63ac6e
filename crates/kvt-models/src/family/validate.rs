//! Checks that several families share.

use crate::error::ModelError;

/// Refuses a number outside of its range, which is given in words.
pub(crate) fn within(
    field: &'static str,
    value: f64,
    is_within: bool,
    expected: &'static str,
) -> Result<(), ModelError> {
    if is_within {
        return Ok(());
    }
    Err(ModelError::OutOfRange {
        field,
        value,
        expected,
    })
}

/// Rejects zero and implausibly large sizes, so that the arithmetic of costs cannot overflow.
pub(crate) fn sizes(sizes: &[(&'static str, usize)]) -> Result<(), ModelError> {
    for &(field, size) in sizes {
        within(field, size as f64, size > 0, "at least 1")?;
        let (largest, expected) = match field {
            "img_size" | "embed_dim" | "token_dim" | "stem_dim" | "inner_dim" => {
                (1 << 16, "at most 65536")
            }
            "depth" | "in_chans" => (1 << 12, "at most 4096"),
            _ => (1 << 20, "at most 1048576"),
        };
        within(field, size as f64, size <= largest, expected)?;
    }
    Ok(())
}

/// Refuses maps of implausibly many tokens.
pub(crate) fn tokens(side: usize) -> Result<(), ModelError> {
    let expected = "at most 1024: take larger patches or smaller images";
    let field = "tokens along a side of the map";
    within(field, side as f64, side <= 1024, expected)
}

/// Refuses windows that are much larger than the first map, which is the largest: they would be padding alone, and the pairs of their
/// tokens would fill any memory. Small maps have windows of any usual size.
pub(crate) fn window(side: usize, map: usize) -> Result<(), ModelError> {
    let expected = "at most the tokens along a side of the first map, or 32 if there are fewer";
    within("window_size", side as f64, side <= map.max(32), expected)
}

/// Refuses a list, given by its length, that does not have one entry per stage.
pub(crate) fn per_stage(
    field: &'static str,
    given: usize,
    stages: usize,
) -> Result<(), ModelError> {
    if given == stages {
        return Ok(());
    }
    Err(ModelError::ListLength {
        field,
        given,
        expected: format!(
            "one for all {stages} stages, or one per stage (`depth` has one per stage, where it has several)"
        ),
    })
}

/// Refuses an image that does not divide into patches.
pub(crate) fn whole_patches(img_size: usize, patch_size: usize) -> Result<(), ModelError> {
    whole_image(img_size, patch_size, format!("`patch_size` {patch_size}"))
}

/// Refuses an image that does not divide by the product of the strides with which it becomes smaller.
pub(crate) fn whole_strides(img_size: usize, product: usize) -> Result<(), ModelError> {
    whole_image(
        img_size,
        product,
        format!("{product}, the product of `strides`"),
    )
}

fn whole_image(img_size: usize, divisor: usize, called: String) -> Result<(), ModelError> {
    let steps = img_size / divisor;
    let [lower, upper] = [steps.max(1), (steps + 1).max(2)].map(|n| n.saturating_mul(divisor));
    let nearest = format!("the nearest multiples are {lower} and {upper}");
    multiple(("img_size", img_size), (divisor, called), nearest)
}

/// Refuses images whose sides are no multiples of those of a patch, or less than the least.
pub(crate) fn input(
    family: &'static str,
    [height, width]: [usize; 2],
    [least, patch]: [usize; 2],
) -> Result<(), ModelError> {
    let is_whole = |side: usize| side > 0 && side.is_multiple_of(patch);
    let expected = if patch > 1 && !(is_whole(height) && is_whole(width)) {
        format!("multiples of the {patch} pixels of a patch")
    } else if height.min(width) < least {
        format!("at least {least} pixels on each side")
    } else {
        return Ok(());
    };
    Err(ModelError::ImageSize {
        height,
        width,
        family,
        expected,
    })
}

/// Refuses channels that do not divide among the heads.
pub(crate) fn whole_heads(
    channels: (&'static str, usize),
    (field, heads): (&str, usize),
) -> Result<(), ModelError> {
    let reason = "every head needs the same number of channels";
    multiple(channels, (heads, format!("`{field}` {heads}")), reason)
}

/// Refuses a size that is not a multiple of another number, which is given by its value and in words.
pub(crate) fn multiple(
    (field, value): (&'static str, usize),
    (divisor, called): (usize, String),
    reason: impl Into<String>,
) -> Result<(), ModelError> {
    if value.is_multiple_of(divisor) {
        return Ok(());
    }
    Err(ModelError::NotMultiple {
        field,
        value,
        divisor: called,
        reason: reason.into(),
    })
}

/// Refuses an MLP without hidden channels, or with implausibly many.
pub(crate) fn mlp(hidden: usize, mlp_ratio: f64) -> Result<(), ModelError> {
    let is_within = mlp_ratio.is_finite() && (1..=1 << 20).contains(&hidden);
    let expected = "a finite number that leaves at least one hidden channel, and at most 1048576";
    within("mlp_ratio", mlp_ratio, is_within, expected)
}

/// Refuses a rate outside [0, 1).
pub(crate) fn rate(field: &'static str, value: f64) -> Result<(), ModelError> {
    let is_within = (0.0..1.0).contains(&value);
    within(field, value, is_within, "a rate of at least 0 and below 1")
}
