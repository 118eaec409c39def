//! Time as it bounds a permission.

/// A reading of both of the browser's clocks, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Moment {
    /// `performance.now()`: never set back, but stands still while some machines sleep.
    pub(crate) steady: f64,
    /// `Date.now()`: counts sleep, but can be set.
    pub(crate) wall: f64,
}

impl Moment {
    /// Milliseconds since `earlier` by whichever clock saw more of them: a permission may end too early, and
    /// never too late.
    pub(crate) fn since(self, earlier: Self) -> f64 {
        (self.steady - earlier.steady).max(self.wall - earlier.wall).max(0.0)
    }
}
