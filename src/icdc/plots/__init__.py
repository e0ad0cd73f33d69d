"""Pictures of solutions: Gantt chart, tour, heatmap, and the denoising that led there.

Every function takes plain arrays, draws on the axes it is given, or on new ones, and returns them. matplotlib is
imported only when something is drawn. Colours are told apart by people with any colour vision. Which picture suits
a problem is `Problem.draw_solution`; files are written by `icdc.io`.
"""

from .gantt import plot_bars, plot_gantt
from .matrices import Frame, Recorder, animate, plot_heatmap
from .style import new_figure
from .tour import plot_tour, scaled_positions

__all__ = [
    "Frame",
    "Recorder",
    "animate",
    "new_figure",
    "plot_bars",
    "plot_gantt",
    "plot_heatmap",
    "plot_tour",
    "scaled_positions",
]
