pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod demo;
pub(crate) mod extension;
pub(crate) mod link_darwin;
pub(crate) mod test;
pub(crate) mod tidy;
