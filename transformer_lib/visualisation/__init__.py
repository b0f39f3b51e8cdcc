"""Figures in one visual language: fixed colours per role, labelled axes, an alternative text with each.

Every function returns a matplotlib figure; `show(figure, alt=...)` displays it.
"""

from transformer_lib.visualisation import beam_tree as beam_tree
from transformer_lib.visualisation import data_flow as data_flow
from transformer_lib.visualisation import heads as heads
from transformer_lib.visualisation import mask_builder as mask_builder
from transformer_lib.visualisation import minilm_heads as minilm_heads
from transformer_lib.visualisation import norm_depth as norm_depth
from transformer_lib.visualisation import rates as rates
from transformer_lib.visualisation import reach as reach
from transformer_lib.visualisation import scale as scale
from transformer_lib.visualisation import sinusoids as sinusoids
from transformer_lib.visualisation.allowed import mask_maps as mask_maps
from transformer_lib.visualisation.clouds import point_clouds as point_clouds
from transformer_lib.visualisation.maps import attention_maps as attention_maps
from transformer_lib.visualisation.plots import Panel as Panel
from transformer_lib.visualisation.plots import curves as curves
from transformer_lib.visualisation.steps import four_steps as four_steps
from transformer_lib.visualisation.style import COLOURS as COLOURS
from transformer_lib.visualisation.style import show as show
