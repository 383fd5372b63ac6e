//! Loops that are compiled for each width of vectors that a CPU may have.

/// Declares functions whose bodies are compiled for each width of vectors that a CPU may have; a call runs the widest one that this
/// CPU has. What a body calls in its loops must be `#[inline(always)]`. A body whose vectors are explicit names their token of the
/// type `S`, which implements [`pulp::Simd`]: `fn sum<'a, simd: S>(values: &'a [f32]) -> f32`.
///
/// [`pulp::Arch::dispatch`] also takes a closure, but all widths share it: a long one is inlined into none of them, and then runs with
/// the vectors that every CPU has.
macro_rules! wide {
    (@output) => { () };
    (@output $output:ty) => { $output };
    ($(
        $(#[$doc:meta])*
        $visible:vis fn $name:ident<$($life:lifetime),+ $(, $simd:ident: S)?>($($argument:ident: $type:ty),+ $(,)?) $(-> $output:ty)? $body:block
    )+) => { $(
        $(#[$doc])*
        $visible fn $name<$($life),+>($($argument: $type),+) $(-> $output)? {
            struct Arguments<$($life),+> {
                $($argument: $type),+
            }

            impl<$($life),+> pulp::WithSimd for Arguments<$($life),+> {
                type Output = crate::cpu::wide::wide!(@output $($output)?);

                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, token: S) -> Self::Output {
                    let _ = token;
                    $(let $simd = token;)?
                    let Self { $($argument),+ } = self;
                    $body
                }
            }

            pulp::Arch::new().dispatch(Arguments { $($argument),+ })
        }
    )+ };
}

pub(crate) use wide;
