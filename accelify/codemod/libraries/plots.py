"""Plots: what draws into a figure in memory, shows it, or sets how plots look."""

ROWS = """\
effects=plots returns=figure
    matplotlib.pyplot: *
    matplotlib: *
    seaborn: *
    plotly: *
    bokeh altair: *
    scienceplots: *
    mpl_toolkits: *
effects=plots returns=figure
    matplotlib.figure: Figure
effects=plots returns=tuple
    matplotlib.pyplot: subplots
effects=shows
    matplotlib.pyplot: show pause draw waitforbuttonpress ginput
    plotly.io: show
    <figure>: show
    IPython.display: display clear_output
-
    IPython.display: Image HTML Markdown Audio Video
effects=shows+writes_files mutates=self
    <figure>: canvas.print_figure
effects=changes_library
    matplotlib: use rc rcdefaults
    matplotlib.pyplot: switch_backend style.use ion ioff rc rcdefaults set_cmap close
    matplotlib.style: use
    seaborn: set set_style set_theme set_context set_palette
    plotly.io.templates: *
traits=attribute effects=changes_library
    matplotlib: rcParams
    matplotlib.pyplot: rcParams
-
    matplotlib.cm matplotlib.colors matplotlib.ticker: *
    matplotlib.pyplot: get_cmap cm.* colormaps
    matplotlib: colormaps
    seaborn: color_palette
effects=plots mutates=self
    <figure>: plot scatter bar barh hist hist2d imshow matshow contour contourf pcolormesh fill_between errorbar boxplot
        violinplot pie step stem quiver axhline axvline axis set_title set_xlabel set_ylabel set_xlim set_ylim
        set_xticks set_yticks set_xticklabels set_yticklabels set_xscale set_yscale legend text annotate grid
        tick_params invert_yaxis set_aspect set_axis_off add_subplot add_axes suptitle tight_layout colorbar twinx
        add_patch clear cla clf subplots_adjust set_size_inches autofmt_xdate set update_layout add_trace add_collection
        subplots set_facecolor semilogy semilogx loglog plot_surface
returns=axes
    <figure>: gca
returns=figure traits=attribute
    <figure>: axes canvas figure patch spines xaxis yaxis transAxes
"""
