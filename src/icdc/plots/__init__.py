"""Pictures of solutions: Gantt chart, tour, heatmap, and the denoising that led there.

Every function draws on the axes it is given, or on new ones, and returns them. matplotlib is imported only
when something is drawn. Colours are told apart by people with any colour vision.
"""

from .animation import Frame, Recorder, save_animation
from .gantt import plot_gantt
from .heatmap import plot_heatmap
from .save import IMAGES, save_solution
from .tour import plot_tour, scaled_positions

__all__ = [
    "IMAGES",
    "Frame",
    "Recorder",
    "plot_gantt",
    "plot_heatmap",
    "plot_tour",
    "save_animation",
    "save_solution",
    "scaled_positions",
]
