"""Ordered trees written with dicts, by recursion and without a thought of speed."""


class DictTree:
    """Nodes know their parent and the list of their children."""

    def __init__(self):
        self.parent = {0: None}
        self.children = {0: []}
        self.next_id = 1

    def add(self, parent):
        node, self.next_id = self.next_id, self.next_id + 1
        self.parent[node] = parent
        self.children[parent].append(node)
        self.children[node] = []
        return node

    def add_chain(self, parent, depth):
        while self.depth(parent) < depth:
            parent = self.add(parent)

    def remove(self, node):
        for child in list(self.children[node]):
            self.remove(child)
        self.children[self.parent[node]].remove(node)
        del self.parent[node], self.children[node]

    def remove_upwards(self, node):
        parent = self.parent[node]
        self.remove(node)
        if parent != 0 and not self.children[parent]:
            self.remove_upwards(parent)

    def merge(self, source, target):
        for child in list(self.children[source]):
            self.move(child, target)
        self.remove(source)

    def move(self, node, parent):
        self.children[self.parent[node]].remove(node)
        self.children[parent].append(node)
        self.parent[node] = parent

    def sort_siblings(self, key):
        for children in self.children.values():
            children.sort(key=key.get)

    def depth(self, node):
        return len(self.path(node)) - 1

    def path(self, node):
        above = self.parent[node]
        return [node] if above is None else [*self.path(above), node]

    def subtree(self, node=0):
        below = (
            other for child in self.children[node] for other in self.subtree(child)
        )
        return [node, *below]

    def total(self, values, node):
        return sum(values[other] for other in self.subtree(node))

    def along(self, values, node):
        return sum(values[other] for other in self.path(node))
