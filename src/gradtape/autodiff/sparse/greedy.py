"""Greedy colouring, as loops over integers: plain Python, and the source of the compiled versions.

A bipartite graph is given from both sides: `starts` and `links` list for each vertex the links it
has, `link_starts` and `vertices` list for each link its vertices. For the columns of a matrix the
vertices are columns and the links are rows, for its rows the other way round. A symmetric graph is
given by `starts`, `neighbours` and `edges`, the number of the edge to each neighbour, the same
from both ends.

Scratch arrays are zero at first. Marks in them are numbers that rise from vertex to vertex, so
no array is ever cleared. Only statements that `compiler.emit.integer_loops` translates may be used
here; int is the only type.
"""

from __future__ import annotations

from collections.abc import MutableSequence

Ints = MutableSequence[int]


def colour_apart(
    count: int,
    order: Ints,
    starts: Ints,
    links: Ints,
    link_starts: Ints,
    vertices: Ints,
    colours: Ints,
    forbidden: Ints,
) -> int:
    """Vertices that share a link get different colours; vertices with a colour keep it.

    Partial distance-2 colouring: Gebremedhin, Manne and Pothen, What color is your Jacobian?, 2005,
    doi:10.1137/S0036144504444711, algorithm 3.1.
    """
    highest = 0
    for place in range(count):
        vertex = order[place]
        if colours[vertex] < 0:
            for i in range(starts[vertex], starts[vertex + 1]):
                link = links[i]
                for k in range(link_starts[link], link_starts[link + 1]):
                    other = colours[vertices[k]]
                    if other >= 0:
                        forbidden[other] = vertex + 1
            colour = 0
            while forbidden[colour] == vertex + 1:
                colour += 1
            colours[vertex] = colour
            if colour >= highest:
                highest = colour + 1
    return highest


def put(vertex: int, bucket: int, heads: Ints, following: Ints, preceding: Ints) -> int:
    """Enter a vertex in the list of a bucket, in front.

    Numbers in the lists are one higher than those of vertices, so that 0 is the end.
    """
    first = heads[bucket]
    following[vertex] = first
    preceding[vertex] = 0
    if first > 0:
        preceding[first - 1] = vertex + 1
    heads[bucket] = vertex + 1
    return 0


def take(vertex: int, bucket: int, heads: Ints, following: Ints, preceding: Ints) -> int:
    """Take a vertex out of the list of its bucket."""
    before = preceding[vertex]
    after = following[vertex]
    if before > 0:
        following[before - 1] = after
    else:
        heads[bucket] = after
    if after > 0:
        preceding[after - 1] = before
    return 0


def order_smallest_last(
    count: int,
    starts: Ints,
    links: Ints,
    link_starts: Ints,
    vertices: Ints,
    degrees: Ints,
    heads: Ints,
    following: Ints,
    preceding: Ints,
    order: Ints,
) -> int:
    """The vertex of lowest degree comes last and is removed, and so on.

    Matula and Beck, 1983, doi:10.1145/2402.322385. `degrees` count every link and neighbour;
    `heads` has room for one more than the highest degree.
    """
    for vertex in range(count):
        put(vertex, degrees[vertex], heads, following, preceding)
    lowest = 0
    place = count
    while place > 0:
        place -= 1
        while heads[lowest] == 0:
            lowest += 1
        vertex = heads[lowest] - 1
        take(vertex, lowest, heads, following, preceding)
        degrees[vertex] = -1
        order[place] = vertex
        for i in range(starts[vertex], starts[vertex + 1]):
            link = links[i]
            for k in range(link_starts[link], link_starts[link + 1]):
                other = vertices[k]
                degree = degrees[other]
                if degree > 0:
                    take(other, degree, heads, following, preceding)
                    degree -= 1
                    degrees[other] = degree
                    put(other, degree, heads, following, preceding)
                    if degree < lowest:
                        lowest = degree
    return 0


def eliminate_lines(
    count: int,
    sizes: Ints,
    starts: Ints,
    neighbours: Ints,
    degrees: Ints,
    heads: Ints,
    following: Ints,
    preceding: Ints,
    times: Ints,
    most: Ints,
) -> int:
    """The times at which rows and columns are removed from a matrix, the emptiest of either first.

    Vertices are the rows, then the columns. The entries that a row still has when it is removed
    come from products with columns, those of a column from products with rows. At each time the
    line is removed that makes the total cost of products least. Coleman and Verma, The efficient
    computation of sparse Jacobian matrices using automatic differentiation, SIAM J. Sci. Comput.
    19, 1998: minimum nonzero count ordering. `sizes` are the number of rows, the room for the
    buckets of either in `heads`, and the costs of a product with columns and of one with rows.
    `times` are `count` at first. `most` gets the most entries that a row and a column had then.
    """
    rows = sizes[0]
    room = sizes[1]
    for vertex in range(count):
        bucket = degrees[vertex]
        if vertex >= rows:
            bucket += room
        put(vertex, bucket, heads, following, preceding)
    rows_left = rows
    columns_left = count - rows
    shortest_row = 0
    shortest_column = room
    by_columns = 0
    by_rows = 0
    time = 0
    while rows_left > 0 and columns_left > 0:
        while heads[shortest_row] == 0:
            shortest_row += 1
        while heads[shortest_column] == 0:
            shortest_column += 1
        more_by_columns = by_columns
        if shortest_row > by_columns:
            more_by_columns = shortest_row
        more_by_rows = by_rows
        if shortest_column - room > by_rows:
            more_by_rows = shortest_column - room
        dearer = sizes[2] * (more_by_columns - by_columns) - sizes[3] * (more_by_rows - by_rows)
        if dearer <= 0:
            vertex = heads[shortest_row] - 1
            take(vertex, shortest_row, heads, following, preceding)
            by_columns = more_by_columns
            rows_left -= 1
        else:
            vertex = heads[shortest_column] - 1
            take(vertex, shortest_column, heads, following, preceding)
            by_rows = more_by_rows
            columns_left -= 1
        times[vertex] = time
        time += 1
        for i in range(starts[vertex], starts[vertex + 1]):
            other = neighbours[i]
            if times[other] == count:
                bucket = degrees[other]
                degrees[other] = bucket - 1
                if other >= rows:
                    bucket += room
                take(other, bucket, heads, following, preceding)
                bucket -= 1
                put(other, bucket, heads, following, preceding)
                if other >= rows:
                    if bucket < shortest_column:
                        shortest_column = bucket
                elif bucket < shortest_row:
                    shortest_row = bucket
    most[0] = by_columns
    most[1] = by_rows
    return time


def colour_partly(
    count: int,
    order: Ints,
    starts: Ints,
    links: Ints,
    wanted: Ints,
    link_starts: Ints,
    vertices: Ints,
    wanted_starts: Ints,
    wanted_vertices: Ints,
    colours: Ints,
    forbidden: Ints,
) -> int:
    """Vertices that share a link get different colours if one of them must stand alone there.

    `wanted` is 1 for each link of a vertex in which the vertex must stand alone. For each link,
    `vertices` lists all of its vertices and `wanted_vertices` those that must stand alone.
    """
    highest = 0
    for place in range(count):
        vertex = order[place]
        for i in range(starts[vertex], starts[vertex + 1]):
            link = links[i]
            if wanted[i] == 1:
                for k in range(link_starts[link], link_starts[link + 1]):
                    other = colours[vertices[k]]
                    if other >= 0:
                        forbidden[other] = vertex + 1
            else:
                for k in range(wanted_starts[link], wanted_starts[link + 1]):
                    other = colours[wanted_vertices[k]]
                    if other >= 0:
                        forbidden[other] = vertex + 1
        colour = 0
        while forbidden[colour] == vertex + 1:
            colour += 1
        colours[vertex] = colour
        if colour >= highest:
            highest = colour + 1
    return highest


def forbid_neighbours(
    vertex: int, mark: int, starts: Ints, neighbours: Ints, colours: Ints, forbidden: Ints
) -> int:
    """No colour of a neighbour of `vertex` may be taken."""
    for i in range(starts[vertex], starts[vertex + 1]):
        colour = colours[neighbours[i]]
        if colour >= 0:
            forbidden[colour] = mark
    return 0


def colour_stars(
    count: int,
    order: Ints,
    starts: Ints,
    neighbours: Ints,
    edges: Ints,
    colours: Ints,
    forbidden: Ints,
    first_mark: Ints,
    first_neighbour: Ints,
    first_edge: Ints,
    treated: Ints,
    star: Ints,
    hub: Ints,
) -> int:
    """Neighbours differ, and every path over four vertices has three colours.

    So two colours induce stars only. Gebremedhin, Tarafdar, Manne and Pothen, New acyclic and star
    coloring algorithms, 2007, doi:10.1137/050639879, algorithm 4.1.
    """
    highest = 0
    stars = 0
    for place in range(count):
        vertex = order[place]
        mark = place + 1
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            colour = colours[near]
            if colour >= 0:
                forbidden[colour] = mark
                if first_mark[colour] == mark:
                    # Two neighbours of one colour: neither may see this vertex's colour again.
                    earlier = first_neighbour[colour]
                    if treated[earlier] != mark:
                        forbid_neighbours(earlier, mark, starts, neighbours, colours, forbidden)
                        treated[earlier] = mark
                    forbid_neighbours(near, mark, starts, neighbours, colours, forbidden)
                    treated[near] = mark
                else:
                    first_mark[colour] = mark
                    first_neighbour[colour] = near
                    first_edge[colour] = edges[i]
                    for j in range(starts[near], starts[near + 1]):
                        far = neighbours[j]
                        if far != vertex and colours[far] >= 0 and hub[star[edges[j]]] == far + 1:
                            forbidden[colours[far]] = mark
        chosen = 0
        while forbidden[chosen] == mark:
            chosen += 1
        colours[vertex] = chosen
        if chosen >= highest:
            highest = chosen + 1
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            colour = colours[near]
            if colour >= 0:
                joined = 0
                for j in range(starts[near], starts[near + 1]):
                    far = neighbours[j]
                    if far != vertex and colours[far] == chosen:
                        joined = 1
                        star[edges[i]] = star[edges[j]]
                        hub[star[edges[j]]] = near + 1
                        break
                if joined == 0:
                    if first_neighbour[colour] != near:
                        star[edges[i]] = star[first_edge[colour]]
                        hub[star[first_edge[colour]]] = vertex + 1
                    else:
                        star[edges[i]] = stars
                        hub[stars] = 0
                        stars += 1
    return highest


def root_of(parents: Ints, edge: int) -> int:
    """The representative of the tree of `edge`, in a forest of disjoint sets."""
    while parents[edge] != edge:
        parents[edge] = parents[parents[edge]]
        edge = parents[edge]
    return edge


def colour_trees(
    count: int,
    order: Ints,
    starts: Ints,
    neighbours: Ints,
    edges: Ints,
    colours: Ints,
    forbidden: Ints,
    first_mark: Ints,
    first_edge: Ints,
    parents: Ints,
    visit_mark: Ints,
    visit_neighbour: Ints,
) -> int:
    """Neighbours differ, and every cycle has three colours: two colours induce trees only.

    Gebremedhin, Tarafdar, Manne and Pothen, 2007, doi:10.1137/050639879, algorithm 3.1. `parents`
    numbers the edges at first.
    """
    highest = 0
    for place in range(count):
        vertex = order[place]
        mark = place + 1
        for i in range(starts[vertex], starts[vertex + 1]):
            colour = colours[neighbours[i]]
            if colour >= 0:
                forbidden[colour] = mark
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            if colours[near] >= 0:
                for j in range(starts[near], starts[near + 1]):
                    far = neighbours[j]
                    colour = colours[far]
                    if far != vertex and colour >= 0 and forbidden[colour] != mark:
                        tree = root_of(parents, edges[j])
                        if visit_mark[tree] != mark:
                            visit_mark[tree] = mark
                            visit_neighbour[tree] = near
                        elif visit_neighbour[tree] != near:
                            # The tree is reached by two neighbours: this colour would close it.
                            forbidden[colour] = mark
        chosen = 0
        while forbidden[chosen] == mark:
            chosen += 1
        colours[vertex] = chosen
        if chosen >= highest:
            highest = chosen + 1
        for i in range(starts[vertex], starts[vertex + 1]):
            colour = colours[neighbours[i]]
            if colour >= 0:
                if first_mark[colour] != mark:
                    first_mark[colour] = mark
                    first_edge[colour] = edges[i]
                else:
                    parents[root_of(parents, edges[i])] = root_of(parents, first_edge[colour])
        for i in range(starts[vertex], starts[vertex + 1]):
            near = neighbours[i]
            if colours[near] >= 0:
                for j in range(starts[near], starts[near + 1]):
                    far = neighbours[j]
                    if far != vertex and colours[far] == chosen:
                        parents[root_of(parents, edges[i])] = root_of(parents, edges[j])
    return highest


def peel_trees(
    count: int,
    edge_groups: Ints,
    group_starts: Ints,
    group_edges: Ints,
    left: Ints,
    queue: Ints,
    sequence: Ints,
    solved_from: Ints,
) -> int:
    """An order in which each edge is the last unknown one of some group of edges.

    Edge e belongs to groups `edge_groups[2 e]` and `edge_groups[2 e + 1]`; one compressed value is
    the sum over a group. `left` counts the unknown edges of each of `count` groups; `solved_from`
    is -1 at first. Returns the number of edges that could be solved.
    """
    waiting = 0
    for group in range(count):
        if left[group] == 1:
            queue[waiting] = group
            waiting += 1
    solved = 0
    taken = 0
    while taken < waiting:
        group = queue[taken]
        taken += 1
        if left[group] == 1:
            for k in range(group_starts[group], group_starts[group + 1]):
                edge = group_edges[k]
                if solved_from[edge] < 0:
                    solved_from[edge] = group
                    sequence[solved] = edge
                    solved += 1
                    for side in range(2):
                        touched = edge_groups[2 * edge + side]
                        left[touched] = left[touched] - 1
                        if left[touched] == 1:
                            queue[waiting] = touched
                            waiting += 1
    return solved


# In the order of their calls.
FUNCTIONS = (
    colour_apart,
    put,
    take,
    order_smallest_last,
    eliminate_lines,
    colour_partly,
    forbid_neighbours,
    colour_stars,
    root_of,
    colour_trees,
    peel_trees,
)
