"""Turn the shapes written in the library's signatures into checks, for every test but those of bad input."""

import os

if os.environ.get("TRANSFORMER_LIB_NO_SHAPES") != "1":
    from jaxtyping import install_import_hook

    install_import_hook("transformer_lib", "beartype.beartype")
