//! Loops that are compiled for each width of vectors that a CPU may have.

/// Declares functions whose bodies are compiled for each width of vectors that a CPU may have; a call runs the widest one that this
/// CPU has. What a body calls in its loops must be `#[inline(always)]`.
///
/// [`pulp::Arch::dispatch`] also takes a closure, but all widths share it: a long one is inlined into none of them, and then runs with
/// the vectors that every CPU has.
macro_rules! wide {
    (@output) => { () };
    (@output $output:ty) => { $output };
    ($(
        $(#[$doc:meta])*
        $visible:vis fn $name:ident<$life:lifetime>($($argument:ident: $type:ty),+ $(,)?) $(-> $output:ty)? $body:block
    )+) => { $(
        $(#[$doc])*
        $visible fn $name<$life>($($argument: $type),+) $(-> $output)? {
            struct Arguments<$life> {
                $($argument: $type),+
            }

            impl<$life> pulp::WithSimd for Arguments<$life> {
                type Output = crate::cpu::wide::wide!(@output $($output)?);

                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
                    let Self { $($argument),+ } = self;
                    $body
                }
            }

            pulp::Arch::new().dispatch(Arguments { $($argument),+ })
        }
    )+ };
}

pub(crate) use wide;
