// SPDX-License-Identifier: BSD-3-Clause
#include "node/store/slots.h"

#include "base/check.h"

namespace farcached::node {

void Slots::attach(fabric::Region& region, Arena& arena, uint16_t number, uint32_t partition_count) {
    region_ = &region;
    arena_ = &arena;
    number_ = number;
    home_ = arena.pool().home_of(number, partition_count);
}

Ref Slots::take(uint8_t size_class, bool in_zone) {
    OfClass& mine = classes_[size_class];
    if (mine.partial_head[in_zone] == nil) return nil;
    const uint64_t number_of_page = mine.partial_head[in_zone];
    Page& page = arena_->page(number_of_page);
    Ref ref = page.free_head;
    if (ref != nil)
        page.free_head = arena_->descriptor(ref).next;
    else
        ref = make_ref(number_of_page, page.fresh++);
    page.live++;
    mine.used++;
    if (page.live == arena_->classes().slots(size_class)) close_page(number_of_page);
    return ref;
}

void Slots::close_page(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    if (page.partial == 0) return;
    if (page.prev != nil)
        arena_->page(page.prev).next = page.next;
    else
        classes_[page.size_class].partial_head[page.partial == in_zone_list] = page.next;
    if (page.next != nil) arena_->page(page.next).prev = page.prev;
    page.partial = 0;
    page.prev = page.next = nil;
}

void Slots::add_partial(uint64_t number_of_page) {
    Page& page = arena_->page(number_of_page);
    const bool in_zone = number_of_page < arena_->pool().lease_zone();
    uint32_t& head = classes_[page.size_class].partial_head[in_zone];
    page.partial = in_zone ? in_zone_list : in_other_list;
    page.prev = nil;
    page.next = head;
    if (head != nil) arena_->page(head).prev = uint32_t(number_of_page);
    head = uint32_t(number_of_page);
}

void Slots::zone_moved(uint64_t number_of_page) {
    if (arena_->page(number_of_page).partial == 0) return;
    close_page(number_of_page);
    add_partial(number_of_page);
}

bool Slots::describable(uint64_t number_of_page, uint8_t size_class) {
    if (arena_->have_descriptors(number_of_page, size_class)) return true;
    arena_->pool().refuse(number_of_page);
    return false;
}

bool Slots::adopt(uint64_t number_of_page, uint8_t size_class) {
    arena_->cut(number_of_page, 1, size_class, number_);
    if (number_of_page >= arena_->pool().limit_pages()) {
        arena_->uncut(number_of_page);
        return false;
    }
    add_partial(number_of_page);
    classes_[size_class].pages++;
    return true;
}

Ref Slots::take_first(uint64_t number_of_page, uint8_t size_class) {
    if (!adopt(number_of_page, size_class)) return nil;
    return take(size_class, arena_->page(number_of_page).partial == in_zone_list);
}

Ref Slots::take_run(uint64_t first, uint64_t pages) {
    if (!arena_->have_descriptors(first, layout::large_class)) {
        arena_->pool().give_back(first, pages);
        return nil;
    }
    arena_->cut(first, pages, layout::large_class, number_);
    if (first + pages > arena_->pool().limit_pages()) {
        arena_->uncut(first);
        return nil;
    }
    Page& page = arena_->page(first);
    page.live = 1;
    page.fresh = 1;
    page.born = arena_->next_birth();
    classes_[layout::large_class].pages += pages;
    classes_[layout::large_class].used++;
    return make_ref(first, 0);
}

void Slots::release(Ref ref) {
    const uint64_t number_of_page = page_of(ref);
    Page& page = arena_->page(number_of_page);
    OfClass& mine = classes_[page.size_class];
    Descriptor& item = arena_->descriptor(ref);
    item.state = SlotState::free;
    CHECK(page.live > 0);
    page.live--;
    mine.used--;
    if (page.size_class == layout::large_class) {
        mine.pages -= region_->page(number_of_page).run_pages;
        arena_->uncut(number_of_page);
        return;
    }
    item.next = page.free_head;
    page.free_head = ref;
    if (page.live == 0) {
        close_page(number_of_page);
        mine.pages--;
        arena_->uncut(number_of_page);
        return;
    }
    if (page.partial == 0 && page.draining == 0) add_partial(number_of_page);
}

void Slots::add_stats(Stats& sum) const {
    for (uint8_t i = 1; i < class_numbers; i++) {
        const OfClass& mine = classes_[i];
        sum.classes[i].pages += mine.pages;
        sum.classes[i].slots_used += mine.used;
        sum.classes[i].slots_total += i == layout::large_class ? mine.used : mine.pages * arena_->classes().slots(i);
    }
}

}  // namespace farcached::node
