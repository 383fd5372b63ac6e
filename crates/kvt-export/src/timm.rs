//! timm's folder.
