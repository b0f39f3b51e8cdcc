"""The Transformer of Vaswani et al. (2017), small, clear and tested.

Modules by floor; each imports only from floors below:

0. `attention`, `masks`, `positional`
1. `multi_head`
2. `layers`, `encoder_decoder`
3. `model`

Beside them stand `data`, `toy`, `multi30k`, `training`, `checkpoints` and `decoding`; on top of them
`visualisation` and `exercises`. Importing the package prints, seeds and downloads nothing.
"""

__version__ = "0.1.0"
