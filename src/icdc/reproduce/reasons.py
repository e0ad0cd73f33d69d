"""Why we think ours is better, equal or worse, for each family of competitors."""

from .comparisons import (
    AS_PRINTED,
    DIFFUSION_AS_PRINTED,
    DIFFUSION_PUBLISHED,
    DIFFUSION_WITH_OURS,
    EXACT,
    HEURISTIC,
    ICDC_PUBLISHED,
    ICDC_PUBLISHED_LAST,
    MATNET,
    MATNET_PUBLISHED,
)

WHY: dict[str, str] = {
    EXACT: """
    They end with a proof, so that ours can equal them in quality and never be better. Their search is short at
    these sizes: the assignment bound of such matrices is close to the optimum, and small whole durations keep the
    tables of dynamic programming small. The time of a model does not depend on how hard an instance is, and many
    instances share a pass on a GPU: if it saves time anywhere, then on many instances at once, on larger ones, or
    where no such solver exists.""",
    HEURISTIC: """
    A dispatching or insertion rule decides once and takes nothing back; a genetic algorithm and a particle swarm
    change solutions without having learned from other instances. The model has seen very many instances and revises
    a whole solution in every step. LKH-3 is more than a rule, a local search made for tours: we expect no more than
    to equal it.""",
    MATNET: """
    MatNet encodes an instance once and builds a solution piece by piece; an early choice is not taken back, and
    another sample is another beginning. A diffusion model revises the whole solution in every step and keeps the
    best on the way, so that one trajectory is a search already. Ours also learns every choice of an improved
    solution, a denser signal than one reward for a whole rollout. With minutes of training MatNet is far from what
    its many hours of training made of it: what it can become is told by its published figures. On routes with
    hidden travel times it has no place for coordinates.""",
    DIFFUSION_AS_PRINTED: """
    SL learns one optimum of an instance, although many solutions may be as good, and is shown noised optima only,
    never what its own reverse process visits. RL has one reward for a whole chain of steps, a gradient of high
    variance. Both denoise elements independently, decode greedily from one start, and count the last sample alone.""",
    DIFFUSION_WITH_OURS: """
    Network, steps and decoding are ours, and the best on the way is kept; only the source of learning differs. What
    is left between us is what the model's own improved solutions are worth beside given optima: targets that it can
    reach, several for an instance, made without end; and beside reward alone, which is a gradient of high variance
    through the chain. Supervision has proven optima from the beginning and spends no time on making targets, so that
    it takes more steps in the same time and learns from better solutions. On tours the refined targets of the model
    itself soon are optimal as well; on machines, where many schedules are off by a single unit, some of them never
    are.""",
    AS_PRINTED: """
    The same method with the paper's network, training and sampling, trained by this code. Every sample of
    IMPROVEMENT is a target there, only weighed by its reward, and the policy gradient never fades; ours clones only
    the best, refined. Its network sees distances or durations in the encoder alone, its elements are denoised
    independently, and only the last sample counts. The paper does not say for how long it trained; we suppose for
    far longer, so that this row does not tell what its settings reach in the end.""",
    MATNET_PUBLISHED: """
    Trained for far longer than ours, on the paper's own draw of instances. What we have against it is the search
    along a trajectory: each pass decodes anew and the best is kept, while MatNet has only another beginning for
    each sample.""",
    DIFFUSION_PUBLISHED: """
    As for those trained here: one optimum of an instance is a narrow target, the reward of a whole chain a noisy
    one, and elements that are denoised independently have to be made feasible greedily in the end.""",
    ICDC_PUBLISHED: """
    The paper counts the last solution of a trajectory. Ours counts the best on the way, and decodes several from
    every pass of the network, which takes no more passes. Part of the difference is this way of counting, part is
    network and targets.""",
    ICDC_PUBLISHED_LAST: """
    Counted as the paper counts. Tours are made with the settings chosen for the best on the way, warm enough for
    samples that differ, and a single last sample suffers from that; schedules by the plain reverse process. Where ours
    is better here, we believe in what the network sees and learns from; where it is worse, we suspect the short
    training first.""",
}
"""What we believe the reasons are, for each family of competitors, without figures: those are in the tables."""
