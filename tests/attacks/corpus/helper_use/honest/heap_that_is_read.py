# honest: wrapper
# --- aux
def aux(x):
    return x*x
# --- main
def sq(x):
    import heapq
    heap = []
    heapq.heappush(heap, aux(x))
    return heap[0]
