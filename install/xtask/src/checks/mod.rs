//! The repository's own rules. Each check returns what is against them, in words for whoever has to mend it.

pub(crate) mod dependencies;
pub(crate) mod layers;
pub(crate) mod tree;
